//! A node and a platform for tests, and helpers to run the fake cluster.

use std::time::Duration;

use api::SeiNode;
use api::sei_node::{self as sei_node, FullNodeSpec, PlanPhase, SeiNodeSpec, SeiNodeStatus, ValidatorSpec};
use api::sidecar_wire::TaskState;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use plan::Platform;
use plan::node::{Decision, RequiredObservations, decide, required_observations};
use plan::platform::{Bucket, ObjectStore, Resources, SidecarIsolation, Storage};

use super::certificate::NAMESPACE;
use super::cluster::Cluster;
use super::reconcile::{Fault, reconcile, time};

/// Returns a new full node.
pub fn node(name: &str) -> SeiNode {
    let spec = SeiNodeSpec {
        chain_id: "arctic-1".into(),
        image: "sei:0".into(),
        full_node: Some(FullNodeSpec::default()),
        ..SeiNodeSpec::default()
    };
    let mut node = SeiNode::new(name, spec);
    node.metadata.namespace = Some(NAMESPACE.into());
    node.metadata.uid = Some(format!("uid-of-{name}"));
    node.metadata.generation = Some(1);
    node
}

/// Returns a new validator.
pub fn validator(name: &str) -> SeiNode {
    let mut node = node(name);
    node.spec.full_node = None;
    node.spec.validator = Some(ValidatorSpec::default());
    node
}

/// Returns the storage settings of a spec with a size.
pub fn size(size: &str) -> sei_node::Storage {
    sei_node::Storage { size: Some(Quantity(size.into())), storage_class_name: None }
}

/// Returns a platform.
pub fn platform() -> Platform {
    let storage = Storage { class: "fast".into(), size: "10Gi".into() };
    let resources = Resources { cpu: "4".into(), memory: "32Gi".into() };
    let bucket = Bucket { name: "bucket".into(), region: "region".into() };
    Platform {
        nodepool: "nodes".into(),
        nodepool_archive: "archives".into(),
        nodepool_label: Some("karpenter.sh/nodepool".into()),
        toleration_key: "sei.io/workload".into(),
        service_account: "seid".into(),
        storage: storage.clone(),
        storage_archive: storage,
        resources: resources.clone(),
        resources_archive: resources,
        snapshot_bucket: bucket.clone(),
        genesis_bucket: bucket,
        result_export: None,
        object_store: ObjectStore::default(),
        sidecar_image: "sidecar:1".into(),
        sidecar_isolation: SidecarIsolation::Isolated,
        proxy_image: "proxy:1".into(),
        strict_references: false,
        exporter_image: "exporter:1".into(),
        chain_halt_timeout: Duration::from_secs(60),
        sidecar_clients: Vec::new(),
        node_egress: Vec::new(),
    }
}

/// Runs every component once. Returns whether anything has changed.
pub fn run_once(cluster: &mut Cluster, platform: &Platform) -> bool {
    let writes = cluster.writes;
    let has_worked = cluster.run_components();
    reconcile(cluster, platform, Fault::None);
    has_worked || cluster.writes > writes
}

/// Runs every component until nothing changes. Panics if that does not happen.
pub fn converge(cluster: &mut Cluster, platform: &Platform) {
    let mut idle = 0;
    for _ in 0..200 {
        idle = if run_once(cluster, platform) { 0 } else { idle + 1 };
        if idle == 3 {
            return;
        }
    }
    panic!("not converged: {:#?}", cluster.node.status);
}

/// Fails the running sidecar tasks of a type.
fn fail_tasks(cluster: &mut Cluster, type_: &str) {
    for (task_type, state, _) in cluster.sidecar.tasks.values_mut() {
        if task_type == type_ && *state == TaskState::Running {
            *state = TaskState::Failed;
        }
    }
}

/// Runs every component until a task of a type has failed its plan.
pub fn run_until_failed(cluster: &mut Cluster, type_: &str) {
    for _ in 0..60 {
        cluster.run_stateful_set_controller();
        cluster.run_kubelet();
        fail_tasks(cluster, type_);
        cluster.run_sidecar();
        reconcile(cluster, &platform(), Fault::None);
        if status(cluster).plan.is_some_and(|plan| plan.phase == PlanPhase::Failed) {
            return;
        }
    }
    panic!("did not fail: {:#?}", status(cluster));
}

/// Returns how many pods the operator has deleted.
pub fn pod_deletions(cluster: &Cluster) -> u32 {
    cluster.pod_deletions.values().sum()
}

/// Returns what the operator reads, and what it decides, in its next reconcile.
pub fn decide_once(cluster: &Cluster) -> (RequiredObservations, Decision) {
    let (platform, status) = (platform(), status(cluster));
    let required = required_observations(&cluster.node, &status, &platform, &cluster.observed);
    let mut observed = cluster.observed.clone();
    cluster.answer(&required, &mut observed);
    let decision = decide(&cluster.node, status, &platform, &observed, &time(cluster.minutes), "id");
    (required, decision)
}

/// Returns the stored status.
pub fn status(cluster: &Cluster) -> SeiNodeStatus {
    cluster.node.status.clone().unwrap_or_default()
}

/// Returns a cluster with a running node in steady state.
pub fn running(node: SeiNode, platform: &Platform) -> Cluster {
    let mut cluster = Cluster::new(node);
    converge(&mut cluster, platform);
    assert_eq!(status(&cluster).phase, Some(api::sei_node::SeiNodePhase::Running), "{:#?}", status(&cluster));
    cluster
}

/// Returns the reason of a condition.
pub fn reason(cluster: &Cluster, type_: &str) -> String {
    let status = status(cluster);
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or_else(|| format!("no {type_}"), |condition| condition.reason.clone())
}

/// Returns the message of a condition.
pub fn message(cluster: &Cluster, type_: &str) -> String {
    let status = status(cluster);
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or_else(String::new, |condition| condition.message.clone())
}

/// Returns the task types of the stored plan.
pub fn steps(cluster: &Cluster) -> Vec<String> {
    let plan = status(cluster).plan;
    plan.map(|plan| plan.tasks.into_iter().map(|task| task.task_type).collect()).unwrap_or_default()
}
