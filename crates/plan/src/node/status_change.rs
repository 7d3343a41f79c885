//! The `current...` fields of the status: what a node was observed to run with.

use std::collections::BTreeMap;

use api::names::{annotation, container};
use api::sei_node::{
    ConfigChange, ObservedKeys, ObservedTls, Scheduling, SeiNodeStatus, SidecarIsolation, StartedFrom,
    TaskPlan,
};
use k8s_openapi::api::core::v1::ResourceRequirements;

use super::context::NodeContext;
use super::isolation::sidecar_isolation;
use super::kind::NodeKind;
use super::observed::ObservedPod;
use super::settings::external_address;
use super::{drift, stored_plan};

/// A change of the status that a completed step asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StatusChange {
    /// What the running pod was created with.
    Pod(Box<CurrentPod>),
    /// How the sidecar API of a new pod is served, and the isolation of that pod.
    Tls {
        tls: ObservedTls,
        isolation: SidecarIsolation,
        /// Whether the sidecar of the new pod does not continue the uploads of the previous one.
        ends_uploads: bool,
    },
}

impl StatusChange {
    /// Returns how the sidecar API of a new pod is served.
    pub(super) fn tls(context: NodeContext<'_>, tls: ObservedTls) -> Self {
        let isolation = sidecar_isolation(context.node, context.platform);
        Self::Tls { tls, isolation, ends_uploads: ends_uploads(context) }
    }
}

/// Returns whether a pod with the desired template does not continue the uploads of a previous pod: its sidecar resumes them only if the
/// node publishes snapshots. A shared sidecar always resumes them.
fn ends_uploads(context: NodeContext<'_>) -> bool {
    let isolation = sidecar_isolation(context.node, context.platform);
    isolation == SidecarIsolation::Isolated && !context.kind.snapshot_generation().publish
}

/// What a running pod was created with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CurrentPod {
    image: Option<String>,
    resources: ResourceRequirements,
    scheduling: Scheduling,
    sidecar_image: Option<String>,
    sidecar_port: i32,
    sidecar_resources: ResourceRequirements,
    sidecar_isolation: SidecarIsolation,
    proxy_image: Option<String>,
    proxy_config_hash: Option<String>,
    pod_labels: BTreeMap<String, String>,
    keys: ObservedKeys,
    ends_uploads: bool,
}

impl CurrentPod {
    /// Reads what a pod was created with. The caller has checked that the pod has the newest revision of the desired
    /// template.
    pub(super) fn new(context: NodeContext<'_>, pod: &ObservedPod) -> Self {
        let image = |container| pod.image_of(container).map(str::to_owned);
        let annotations = pod.metadata.annotations.as_ref();
        Self {
            image: image(container::SEID),
            sidecar_image: image(container::SIDECAR),
            proxy_image: image(container::PROXY),
            proxy_config_hash: annotations.and_then(|all| all.get(annotation::PROXY_CONFIG_HASH)).cloned(),
            // From the spec: the API server normalizes these fields and adds to them, and the template has them as the
            // spec does.
            resources: drift::seid_resources(context.node),
            scheduling: drift::scheduling(context.node),
            sidecar_port: drift::sidecar_port(context.node),
            sidecar_resources: drift::sidecar_resources(context.node),
            sidecar_isolation: sidecar_isolation(context.node, context.platform),
            pod_labels: drift::own_labels(&context.node.spec.pod_labels),
            keys: context.kind.key_secrets(),
            ends_uploads: ends_uploads(context),
        }
    }
}

impl StatusChange {
    /// Writes the change into a status.
    pub(super) fn apply(self, status: &mut SeiNodeStatus) {
        let ends_uploads = match &self {
            Self::Pod(pod) => pod.ends_uploads,
            Self::Tls { ends_uploads, .. } => *ends_uploads,
        };
        if let Some(generation) = status.current_snapshot_generation.as_mut().filter(|_| ends_uploads) {
            generation.publish = false;
        }
        match self {
            Self::Pod(pod) => {
                status.current_image = pod.image;
                status.current_resources = Some(pod.resources);
                status.current_scheduling = Some(pod.scheduling);
                status.current_sidecar_image = pod.sidecar_image;
                status.current_sidecar_port = Some(pod.sidecar_port);
                status.current_sidecar_resources = Some(pod.sidecar_resources);
                status.current_sidecar_isolation = Some(pod.sidecar_isolation);
                status.current_proxy_image = pod.proxy_image;
                status.current_proxy_config_hash = pod.proxy_config_hash;
                status.current_pod_labels = Some(pod.pod_labels);
                status.current_keys = Some(pod.keys);
            }
            Self::Tls { tls, isolation, .. } => {
                status.current_sidecar_tls = Some(tls);
                status.current_sidecar_isolation = Some(isolation);
            }
        }
    }
}

/// Records the configuration that a completed plan had the sidecar write.
pub(super) fn record_config(context: NodeContext<'_>, plan: &TaskPlan, status: &mut SeiNodeStatus) {
    // The changes of an interruption are those of an update that is not complete.
    if stored_plan::changes(plan).config == ConfigChange::Unchanged || stored_plan::is_interruption(plan) {
        return;
    }
    let node = context.node;
    status.current_overrides = Some(node.spec.overrides.clone());
    status.current_peers = Some(stored_plan::peers(plan).unwrap_or_default());
    status.current_external_address = Some(external_address(node).unwrap_or_default().to_owned());
    let uploads = status.current_snapshot_generation.is_some_and(|before| before.publish);
    let mut generation = context.kind.snapshot_generation();
    // Plans start uploads. They end only with a pod.
    generation.publish |= uploads;
    status.current_snapshot_generation = Some(generation);
}

/// Records what a node was set up from. For a node that another operator set up, this is what its spec says when it is
/// first reconciled.
pub(super) fn record_start(kind: NodeKind<'_>, status: &mut SeiNodeStatus) {
    status.started_from = Some(StartedFrom { snapshot: kind.snapshot().cloned() });
}
