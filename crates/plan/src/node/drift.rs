//! Drift: how a running node differs from its desired state. A table with one row for each field that can differ;
//! everything that differs at the same time becomes one plan and one pod replacement.

use std::collections::BTreeMap;
use std::fmt::Debug;

use api::SeiNode;
use api::names::port;
use api::sei_node::{
    ConfigChange, IssuerKind, ObservedTls, PeerSource, PlanChanges, Scheduling, Scheme, SeiNodeStatus,
};
use k8s_openapi::api::core::v1::ResourceRequirements;

use super::context::NodeContext;
use super::isolation::{own_isolation, running_isolation, sidecar_isolation, with_running_isolation};
use super::settings::external_address;
use super::tls::{desired_tls, observed_without_tls};
use super::{adoption, applied_spec};
use crate::platform::Platform;
use crate::render;

/// How a node differs from its desired state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Drift {
    /// The changes that bring the node in sync.
    pub(super) changes: PlanChanges,
    /// One phrase for each difference.
    pub(super) phrases: Vec<String>,
    /// An edit of the node is among the causes. Otherwise the changes are paced.
    pub(super) is_from_edit: bool,
}

/// The inputs of a row.
struct Inputs<'a> {
    context: NodeContext<'a>,
    status: &'a SeiNodeStatus,
    /// The spec was edited since it was last applied. Only then does a `current...` field that was never recorded
    /// count as drift: an operator that takes over existing nodes must not replace every pod.
    is_edited: bool,
}

/// A field that can differ.
struct Row {
    /// Whether an edit of the node is the cause of a difference, and not a setting of the platform or another object.
    is_from_edit: fn(&Inputs<'_>) -> bool,
    /// The changes that a difference requires.
    changes: fn(&Inputs<'_>) -> PlanChanges,
    /// Returns a phrase if the field differs.
    find: fn(&Inputs<'_>) -> Option<String>,
}

const NONE: PlanChanges = PlanChanges {
    pod: false,
    tls: false,
    keys: false,
    config: ConfigChange::Unchanged,
    snapshot_upload: false,
};

/// The changes of a row that only needs a new pod.
const POD: fn(&Inputs<'_>) -> PlanChanges = |_| PlanChanges { pod: true, ..NONE };

/// A field that only the spec sets.
const BY_EDIT: fn(&Inputs<'_>) -> bool = |_| true;

/// A field that the spec and the platform, or other objects, determine together.
const BY_EDIT_IF_EDITED: fn(&Inputs<'_>) -> bool = |inputs| inputs.is_edited;

const TABLE: [Row; 17] = [
    Row {
        is_from_edit: BY_EDIT,
        changes: POD,
        find: |i| i.compare("image", i.status.current_image.as_ref(), &i.node().spec.image),
    },
    Row {
        is_from_edit: BY_EDIT,
        changes: POD,
        find: |i| {
            let current = i.status.current_resources.as_ref();
            i.differs_from_default(current, &seid_resources(i.node())).then(|| "seid resources".into())
        },
    },
    Row {
        is_from_edit: BY_EDIT,
        changes: POD,
        find: |i| {
            let current = i.status.current_scheduling.as_ref();
            i.differs_from_default(current, &scheduling(i.node())).then(|| "scheduling".into())
        },
    },
    Row {
        is_from_edit: |i| {
            i.is_edited || i.node().spec.sidecar.as_ref().is_some_and(|own| own.image.is_some())
        },
        changes: POD,
        find: |i| {
            let desired = sidecar_image(i.node(), i.context.platform).to_owned();
            i.compare("sidecar image", i.status.current_sidecar_image.as_ref(), &desired)
        },
    },
    Row {
        is_from_edit: |i| i.is_edited || own_isolation(i.node()).is_some(),
        changes: POD,
        find: |i| {
            let (running, desired) =
                (running_isolation(i.status), sidecar_isolation(i.node(), i.context.platform));
            // A pod of a previous version gets the default of the platform with its next replacement, and is not replaced for it.
            let is_comparable = i.status.current_sidecar_isolation.is_some()
                || i.is_edited && (own_isolation(i.node()).is_some() || i.status.adopted);
            (is_comparable && running != desired)
                .then(|| format!("sidecar isolation {desired:?} instead of {running:?}"))
        },
    },
    Row {
        is_from_edit: BY_EDIT,
        changes: POD,
        find: |i| i.compare("sidecar port", i.status.current_sidecar_port.as_ref(), &sidecar_port(i.node())),
    },
    Row {
        is_from_edit: BY_EDIT,
        changes: POD,
        find: |i| {
            let current = i.status.current_sidecar_resources.as_ref();
            i.differs(current, &sidecar_resources(i.node())).then(|| "sidecar resources".into())
        },
    },
    Row {
        is_from_edit: BY_EDIT,
        changes: |_| PlanChanges { tls: true, ..NONE },
        find: |i| {
            let desired = desired_tls(i.node()).as_observed();
            // A node that was never observed with TLS serves without it.
            let current = i.status.current_sidecar_tls.clone().unwrap_or_else(observed_without_tls);
            (current != desired).then(|| {
                format!("sidecar TLS {} instead of {}", display_tls(&desired), display_tls(&current))
            })
        },
    },
    Row {
        is_from_edit: BY_EDIT_IF_EDITED,
        changes: POD,
        find: |i| {
            let desired = &i.context.platform.proxy_image;
            i.compare("proxy image", i.status.current_proxy_image.as_ref(), desired)
        },
    },
    Row {
        is_from_edit: BY_EDIT_IF_EDITED,
        changes: POD,
        find: |i| {
            let current = i.status.current_proxy_config_hash.as_ref();
            // Previous versions hash more than the configuration, and their pods get the new one with their next replacement.
            if current.is_some() && i.status.current_sidecar_isolation.is_none() {
                return None;
            }
            // A change of the isolation has its own row.
            let node = with_running_isolation(i.node(), i.context.platform, i.status);
            let desired = render::proxy_config_hash(&node, i.context.platform);
            i.compare("proxy configuration", current, &desired)
        },
    },
    Row {
        is_from_edit: BY_EDIT,
        changes: POD,
        find: |i| {
            let desired = own_labels(&i.node().spec.pod_labels);
            i.compare("pod labels", i.status.current_pod_labels.as_ref(), &desired)
        },
    },
    Row {
        is_from_edit: BY_EDIT,
        changes: |_| PlanChanges { pod: true, keys: true, ..NONE },
        find: |i| {
            let current = i.status.current_keys.as_ref();
            i.differs(current, &i.context.kind.key_secrets()).then(|| "validator keys".into())
        },
    },
    Row {
        is_from_edit: BY_EDIT,
        changes: |i| PlanChanges { pod: true, config: overrides_change(i), ..NONE },
        find: |i| i.compare("overrides", i.status.current_overrides.as_ref(), &i.node().spec.overrides),
    },
    Row {
        is_from_edit: BY_EDIT_IF_EDITED,
        changes: |_| PlanChanges { pod: true, config: ConfigChange::Incremental, ..NONE },
        find: |i| {
            let differs = match &i.status.current_peers {
                Some(current) => peers_differ(current, &i.node().spec.peers, &i.context.observed.label_peers),
                None => i.is_edited,
            };
            differs.then(|| "peers".into())
        },
    },
    Row {
        is_from_edit: |i| i.is_edited || i.node().spec.external_address.is_some(),
        changes: |i| {
            let is_removed = external_address(i.node()).is_none();
            let config = if is_removed { ConfigChange::Full } else { ConfigChange::Incremental };
            PlanChanges { pod: true, config, ..NONE }
        },
        find: |i| {
            let desired = external_address(i.node()).unwrap_or_default().to_owned();
            i.compare("external address", i.status.current_external_address.as_ref(), &desired)
        },
    },
    Row {
        is_from_edit: BY_EDIT,
        changes: |i| {
            let desired = i.context.kind.snapshot_generation();
            let current = i.status.current_snapshot_generation.unwrap_or_default();
            let config =
                if desired.keep_recent == 0 { ConfigChange::Full } else { ConfigChange::Incremental };
            let snapshot_upload = desired.publish && !current.publish;
            PlanChanges { pod: true, config, snapshot_upload, ..NONE }
        },
        find: |i| {
            let desired = i.context.kind.snapshot_generation();
            let differs = match i.status.current_snapshot_generation {
                // A plan cannot stop uploads: the condition SpecApplied reports that.
                Some(current) => {
                    current.keep_recent != desired.keep_recent || (desired.publish && !current.publish)
                }
                None => i.is_edited,
            };
            differs.then(|| "snapshot generation".into())
        },
    },
    Row {
        is_from_edit: BY_EDIT_IF_EDITED,
        changes: POD,
        find: |i| {
            i.context
                .has_pod_of_modified_template(i.status)
                .then(|| "pod created from a modified template".into())
        },
    },
];

/// Finds how a running node differs from its desired state. An adopted node is left as it is until it is edited.
pub(super) fn find(context: NodeContext<'_>, status: &SeiNodeStatus) -> Drift {
    if adoption::is_unchanged(context, status) {
        return Drift::default();
    }
    let is_edited = applied_spec::is_edited(context.node, status);
    compare(&Inputs { context, status, is_edited })
}

/// Finds what the next edit of a node changes besides the edited fields.
pub(super) fn find_as_edited(context: NodeContext<'_>, status: &SeiNodeStatus) -> Drift {
    compare(&Inputs { context, status, is_edited: true })
}

fn compare(inputs: &Inputs<'_>) -> Drift {
    let mut drift = Drift::default();
    for row in &TABLE {
        if let Some(phrase) = (row.find)(inputs) {
            drift.changes = drift.changes.union((row.changes)(inputs));
            drift.phrases.push(phrase);
            drift.is_from_edit |= (row.is_from_edit)(inputs);
        }
    }
    drift
}

impl<'a> Inputs<'a> {
    fn node(&self) -> &'a SeiNode {
        self.context.node
    }

    fn differs<T: PartialEq>(&self, current: Option<&T>, desired: &T) -> bool {
        current.map_or(self.is_edited, |current| current != desired)
    }

    /// Compares a field that previous versions do not have: a node that they set up runs without it, and an edit of something else
    /// must not replace its pod for it.
    fn differs_from_default<T: PartialEq + Default>(&self, current: Option<&T>, desired: &T) -> bool {
        self.differs(current, desired) && (current.is_some() || *desired != T::default())
    }

    /// Returns a phrase with both values if they differ.
    fn compare<T: PartialEq + Debug>(&self, what: &str, current: Option<&T>, desired: &T) -> Option<String> {
        self.differs(current, desired).then(|| match current {
            Some(current) => format!("{what} {} instead of {}", display(desired), display(current)),
            None => format!("{what} (never observed)"),
        })
    }
}

/// Formats text without its quotes, and everything else as it is.
fn display<T: Debug>(value: &T) -> String {
    let text = format!("{value:?}");
    match text.as_str() {
        "\"\"" => "none".into(),
        _ => text.trim_matches('"').to_owned(),
    }
}

/// Returns the resources of seid that the spec sets; empty if it has none.
#[must_use]
pub fn seid_resources(node: &SeiNode) -> ResourceRequirements {
    node.spec.resources.clone().unwrap_or_default()
}

/// Returns the scheduling settings of the spec; empty if it has none.
#[must_use]
pub fn scheduling(node: &SeiNode) -> Scheduling {
    node.spec.scheduling.clone().unwrap_or_default()
}

/// Returns the image of a node's sidecar.
#[must_use]
pub fn sidecar_image<'a>(node: &'a SeiNode, platform: &'a Platform) -> &'a str {
    let own = node.spec.sidecar.as_ref().and_then(|sidecar| sidecar.image.as_deref());
    own.filter(|image| !image.is_empty()).unwrap_or(&platform.sidecar_image)
}

/// Returns the port of a node's sidecar.
#[must_use]
pub fn sidecar_port(node: &SeiNode) -> i32 {
    node.spec.sidecar.as_ref().map_or(port::SIDECAR, |sidecar| sidecar.port)
}

/// Returns the resources of a node's sidecar; empty if the spec has none.
#[must_use]
pub fn sidecar_resources(node: &SeiNode) -> ResourceRequirements {
    let own = node.spec.sidecar.as_ref().and_then(|sidecar| sidecar.resources.clone());
    own.unwrap_or_default()
}

fn display_tls(tls: &ObservedTls) -> String {
    match (tls.scheme, &tls.issuer_name, &tls.secret_name) {
        (Scheme::Http, ..) => "none".into(),
        (_, Some(issuer), _) => {
            format!("{issuer}/{:?}", tls.issuer_kind.unwrap_or(IssuerKind::ClusterIssuer))
        }
        (_, None, secret) => format!("Secret {}", secret.as_deref().unwrap_or_default()),
    }
}

/// Returns the labels of a spec without those that the operator sets.
pub(super) fn own_labels(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut labels = labels.clone();
    labels.retain(|name, _| !render::SYSTEM_LABELS.contains(&name.as_str()));
    labels
}

/// Returns the sources that have peers now: a label source that selects no node has none.
pub(super) fn sources_with_peers(
    sources: &[PeerSource],
    label_peers: &BTreeMap<usize, Vec<String>>,
) -> Vec<PeerSource> {
    let has_peers = |index: usize, source: &PeerSource| {
        source.label.is_none() || label_peers.get(&index).is_some_and(|peers| !peers.is_empty())
    };
    let sources = sources.iter().enumerate().filter(|(index, source)| has_peers(*index, source));
    sources.map(|(_, source)| source.clone()).collect()
}

/// Returns whether seid must be given other peers. A selected node that is gone is not a reason: seid handles that
/// itself.
fn peers_differ(
    current: &[PeerSource],
    desired: &[PeerSource],
    label_peers: &BTreeMap<usize, Vec<String>>,
) -> bool {
    let is_removed = current.iter().any(|source| !desired.contains(source));
    let is_added = sources_with_peers(desired, label_peers).iter().any(|source| !current.contains(source));
    is_removed || is_added
}

/// A setting that is no longer desired can only be removed by a full write.
fn overrides_change(inputs: &Inputs<'_>) -> ConfigChange {
    let desired = &inputs.node().spec.overrides;
    match inputs.status.current_overrides.as_ref() {
        Some(current) if current.keys().all(|name| desired.contains_key(name)) => ConfigChange::Incremental,
        _ => ConfigChange::Full,
    }
}
