//! Drift: what a running node differs in from what is wanted of it. A table with one row for each way to differ; whatever
//! differs at the same time becomes one plan and one pod cycle.

use std::collections::BTreeMap;
use std::fmt::Debug;

use api::SeiNode;
use api::names::{object, port};
use api::sei_node::{IssuerKind, ObservedTls, PeerSource, Scheme, SeiNodeStatus};
use k8s_openapi::api::core::v1::ResourceRequirements;

use super::kind::Kind;
use super::observe;
use super::settings::external_address;
use super::world::World;
use crate::platform::Platform;
use crate::render;

/// What a part of a node needs, when it differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// A pod that is made anew, and looked at.
    pub pod: bool,
    /// Another certificate, or none.
    pub tls: bool,
    /// Secrets that are checked.
    pub keys: bool,
    /// Settings that are written anew.
    pub config: Config,
    /// Snapshots that are uploaded from now on.
    pub publish: bool,
}

/// How settings are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Config {
    /// Not at all.
    #[default]
    Kept,
    /// On top of those that are there.
    Changed,
    /// From the defaults of the kind: only so can a setting be taken away.
    Anew,
}

impl Parts {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// What either needs.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            pod: self.pod || other.pod,
            tls: self.tls || other.tls,
            keys: self.keys || other.keys,
            config: self.config.max(other.config),
            publish: self.publish || other.publish,
        }
    }
}

/// What a node differs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// What follows from it.
    pub parts: Parts,
    /// What differs, one phrase each.
    pub phrases: Vec<String>,
}

/// What drift is found in.
struct View<'a> {
    node: &'a SeiNode,
    kind: Kind<'a>,
    status: &'a SeiNodeStatus,
    platform: &'a Platform,
    world: &'a World,
    /// The spec was edited since the node last had everything of it. Only then does a mirror that was never stamped count
    /// as a difference: an operator that comes after another one must not replace every pod.
    edited: bool,
}

/// A way to differ.
struct Row {
    /// What is needed then.
    parts: fn(&View<'_>) -> Parts,
    /// What differs, if it does.
    differs: fn(&View<'_>) -> Option<String>,
}

/// A new pod, made as the spec says.
const POD: fn(&View<'_>) -> Parts = |_| Parts { pod: true, ..NOTHING };
const NOTHING: Parts = Parts { pod: false, tls: false, keys: false, config: Config::Kept, publish: false };

const TABLE: [Row; 14] = [
    Row { parts: POD, differs: |v| mirror(v, "image", v.status.current_image.as_ref(), &v.node.spec.image) },
    Row {
        parts: POD,
        differs: |v| {
            let wanted = sidecar_image(v.node, v.platform);
            mirror(v, "sidecar image", v.status.current_sidecar_image.as_ref(), &wanted.to_owned())
        },
    },
    Row {
        parts: POD,
        differs: |v| mirror(v, "sidecar port", v.status.current_sidecar_port.as_ref(), &sidecar_port(v.node)),
    },
    Row {
        parts: POD,
        differs: |v| {
            let wanted = sidecar_resources(v.node);
            let mirrored = v.status.current_sidecar_resources.as_ref();
            let same = mirrored == Some(&wanted) || (mirrored.is_none() && !v.edited);
            (!same).then(|| "sidecar resources".into())
        },
    },
    Row {
        parts: |_| Parts { tls: true, ..NOTHING },
        differs: |v| {
            let wanted = tls(v.node);
            // A node that was never seen with TLS serves without it.
            let current = v.status.current_sidecar_tls.clone().unwrap_or_else(plain);
            (current != wanted).then(|| {
                format!("sidecar TLS {} instead of {}", tls_in_words(&wanted), tls_in_words(&current))
            })
        },
    },
    Row {
        parts: POD,
        differs: |v| mirror(v, "proxy image", v.status.current_proxy_image.as_ref(), &v.platform.proxy_image),
    },
    Row {
        parts: POD,
        differs: |v| {
            let wanted = render::proxy_config_hash(v.node, v.platform);
            mirror(v, "proxy configuration", v.status.current_proxy_config_hash.as_ref(), &wanted)
        },
    },
    Row {
        parts: POD,
        differs: |v| {
            let wanted = &v.node.spec.pod_labels;
            mirror(v, "pod labels", v.status.current_pod_labels.as_ref(), &own_labels(wanted))
        },
    },
    Row {
        parts: |_| Parts { pod: true, keys: true, ..NOTHING },
        differs: |v| {
            let same = v.status.current_keys.as_ref() == Some(&v.kind.keys())
                || (v.status.current_keys.is_none() && !v.edited);
            (!same).then(|| "keys of the validator".into())
        },
    },
    Row {
        parts: |v| Parts { pod: true, config: overrides_config(v), ..NOTHING },
        differs: |v| mirror(v, "overrides", v.status.current_overrides.as_ref(), &v.node.spec.overrides),
    },
    Row {
        parts: |_| Parts { pod: true, config: Config::Changed, ..NOTHING },
        differs: |v| {
            let differ = match &v.status.current_peers {
                Some(current) => peers_differ(current, &v.node.spec.peers, &v.world.label_peers),
                None => v.edited,
            };
            differ.then(|| "peers".into())
        },
    },
    Row {
        parts: |v| {
            let gone = external_address(v.node).is_none();
            Parts { pod: true, config: if gone { Config::Anew } else { Config::Changed }, ..NOTHING }
        },
        differs: |v| {
            let wanted = external_address(v.node).unwrap_or_default().to_owned();
            mirror(v, "external address", v.status.current_external_address.as_ref(), &wanted)
        },
    },
    Row {
        parts: |v| {
            let (wanted, current) =
                (v.kind.snapshot_generation(), v.status.current_snapshot_generation.unwrap_or_default());
            let config = if wanted.keep_recent == 0 { Config::Anew } else { Config::Changed };
            Parts { pod: true, config, publish: wanted.publish && !current.publish, ..NOTHING }
        },
        differs: |v| {
            let wanted = v.kind.snapshot_generation();
            let differ = match v.status.current_snapshot_generation {
                // Uploads that were begun cannot be ended by a plan: that is said in SpecApplied.
                Some(current) => {
                    current.keep_recent != wanted.keep_recent || (wanted.publish && !current.publish)
                }
                None => v.edited,
            };
            differ.then(|| "snapshot generation".into())
        },
    },
    // Somebody changed the StatefulSet by hand, and it was put back, but the pod was made from the changed one.
    Row { parts: POD, differs: |v| observe::made_from_another_template(v.node, v.platform, v.world) },
];

/// What a running node differs in from what is wanted of it.
#[must_use]
pub fn find(
    node: &SeiNode,
    kind: Kind<'_>,
    status: &SeiNodeStatus,
    platform: &Platform,
    world: &World,
) -> Drift {
    let generation = node.metadata.generation;
    let edited = status.reconciled_generation.is_some() && status.reconciled_generation != generation;
    let view = View { node, kind, status, platform, world, edited };
    let mut drift = Drift::default();
    for row in &TABLE {
        if let Some(phrase) = (row.differs)(&view) {
            drift.parts = drift.parts.and((row.parts)(&view));
            drift.phrases.push(phrase);
        }
    }
    drift
}

fn mirror<T: PartialEq + Debug>(
    view: &View<'_>,
    what: &str,
    current: Option<&T>,
    wanted: &T,
) -> Option<String> {
    match current {
        Some(current) if current == wanted => None,
        Some(current) => Some(format!("{what} {} instead of {}", in_words(wanted), in_words(current))),
        None => view.edited.then(|| format!("{what}, which was never observed")),
    }
}

/// Text without its quotes, and everything else as it is.
fn in_words<T: Debug>(value: &T) -> String {
    let text = format!("{value:?}");
    match text.as_str() {
        "\"\"" => "none".into(),
        _ => text.trim_matches('"').to_owned(),
    }
}

/// The image of a node's sidecar.
#[must_use]
pub fn sidecar_image<'a>(node: &'a SeiNode, platform: &'a Platform) -> &'a str {
    let own = node.spec.sidecar.as_ref().and_then(|sidecar| sidecar.image.as_deref());
    own.filter(|image| !image.is_empty()).unwrap_or(&platform.sidecar_image)
}

/// The port of a node's sidecar.
#[must_use]
pub fn sidecar_port(node: &SeiNode) -> i32 {
    node.spec.sidecar.as_ref().map_or(port::SIDECAR, |sidecar| sidecar.port)
}

/// The resources of a node's sidecar; empty when it has none.
#[must_use]
pub fn sidecar_resources(node: &SeiNode) -> ResourceRequirements {
    let own = node.spec.sidecar.as_ref().and_then(|sidecar| sidecar.resources.clone());
    own.unwrap_or_default()
}

/// How a node's sidecar is to be served.
#[must_use]
pub fn tls(node: &SeiNode) -> ObservedTls {
    let Some(tls) = node.spec.sidecar.as_ref().and_then(|sidecar| sidecar.tls.as_ref()) else {
        return plain();
    };
    let name = node.metadata.name.as_deref().unwrap_or_default();
    match &tls.issuer_name {
        Some(issuer) => ObservedTls {
            scheme: Scheme::Https,
            issuer_name: Some(issuer.clone()),
            issuer_kind: Some(tls.issuer_kind.unwrap_or(IssuerKind::ClusterIssuer)),
            secret_name: Some(object::sidecar_tls(name)),
        },
        None => ObservedTls {
            scheme: Scheme::Https,
            issuer_name: None,
            issuer_kind: None,
            secret_name: tls.secret_name.clone(),
        },
    }
}

/// Served without TLS.
#[must_use]
pub fn plain() -> ObservedTls {
    ObservedTls { scheme: Scheme::Http, issuer_name: None, issuer_kind: None, secret_name: None }
}

fn tls_in_words(tls: &ObservedTls) -> String {
    match (tls.scheme, &tls.issuer_name, &tls.secret_name) {
        (Scheme::Http, ..) => "none".into(),
        (_, Some(issuer), _) => {
            format!("{issuer}/{:?}", tls.issuer_kind.unwrap_or(IssuerKind::ClusterIssuer))
        }
        (_, None, secret) => format!("Secret {}", secret.as_deref().unwrap_or_default()),
    }
}

/// Labels of a spec that are not overruled by ours.
#[must_use]
pub fn own_labels(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut labels = labels.clone();
    labels.retain(|name, _| !render::SYSTEM_LABELS.contains(&name.as_str()));
    labels
}

/// The sources that seid can be given peers of now: a label that selects nobody gives none.
#[must_use]
pub fn peers_that_are_there(spec: &[PeerSource], found: &BTreeMap<usize, Vec<String>>) -> Vec<PeerSource> {
    let there = |index: usize, source: &PeerSource| {
        source.label.is_none() || found.get(&index).is_some_and(|peers| !peers.is_empty())
    };
    spec.iter().enumerate().filter(|(index, source)| there(*index, source)).map(|(_, s)| s.clone()).collect()
}

/// Whether seid must be given other peers. That a selected node is gone is no reason: seid copes with that by itself.
fn peers_differ(current: &[PeerSource], wanted: &[PeerSource], found: &BTreeMap<usize, Vec<String>>) -> bool {
    let removed = current.iter().any(|source| !wanted.contains(source));
    let came = peers_that_are_there(wanted, found).iter().any(|source| !current.contains(source));
    removed || came
}

/// A setting that is no longer wanted can only be taken away by writing all of them anew.
fn overrides_config(view: &View<'_>) -> Config {
    let current = view.status.current_overrides.as_ref();
    let wanted = &view.node.spec.overrides;
    match current {
        Some(current) if current.keys().all(|name| wanted.contains_key(name)) => Config::Changed,
        _ => Config::Anew,
    }
}
