//! A node and a platform to try things on.

use api::SeiNode;
use api::sei_node::{FullNodeSpec, SeiNodeSpec, SeiNodeStatus};
use plan::Platform;
use plan::platform::{Bucket, ObjectStore, Resources, Storage};

use super::certificate::NAMESPACE;
use super::cluster::Cluster;
use super::operator::{Disturbance, pass};

/// A full node that was just created.
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

/// A platform.
pub fn platform() -> Platform {
    let storage = Storage { class: "fast".into(), size: "10Gi".into() };
    let resources = Resources { cpu: "4".into(), memory: "32Gi".into() };
    let bucket = Bucket { name: "bucket".into(), region: "region".into() };
    Platform {
        nodepool: "nodes".into(),
        nodepool_archive: "archives".into(),
        toleration_key: "sei.io/workload".into(),
        service_account: "seid".into(),
        storage: storage.clone(),
        storage_archive: storage,
        resources: resources.clone(),
        resources_archive: resources,
        snapshot_bucket: bucket.clone(),
        genesis_bucket: bucket,
        object_store: ObjectStore::default(),
        sidecar_image: "sidecar:1".into(),
        proxy_image: "proxy:1".into(),
        proxy_token_audience: None,
        exporter_image: "exporter:1".into(),
        sidecar_clients: Vec::new(),
    }
}

/// Everybody works once; returns whether anything happened.
pub fn round(cluster: &mut Cluster, platform: &Platform) -> bool {
    let writes = cluster.writes;
    let worked =
        [cluster.stateful_set_works(), cluster.kubelet_works(), cluster.sidecar_works()].contains(&true);
    pass(cluster, platform, Disturbance::None);
    worked || cluster.writes > writes
}

/// Lets everybody work until nothing happens any more. Panics when that does not come.
pub fn settle(cluster: &mut Cluster, platform: &Platform) {
    let mut calm = 0;
    for _ in 0..200 {
        calm = if round(cluster, platform) { 0 } else { calm + 1 };
        if calm == 3 {
            return;
        }
    }
    panic!("no rest: {:#?}", cluster.node.status);
}

/// The stored status.
pub fn status(cluster: &Cluster) -> SeiNodeStatus {
    cluster.node.status.clone().unwrap_or_default()
}

/// A node that runs, with nothing left to do.
pub fn running(node: SeiNode, platform: &Platform) -> Cluster {
    let mut cluster = Cluster::new(node);
    settle(&mut cluster, platform);
    assert_eq!(status(&cluster).phase, Some(api::sei_node::SeiNodePhase::Running), "{:#?}", status(&cluster));
    cluster
}

/// The reason of a condition.
pub fn reason(cluster: &Cluster, type_: &str) -> String {
    let status = status(cluster);
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or_else(|| format!("no {type_}"), |condition| condition.reason.clone())
}

/// The message of a condition.
pub fn message(cluster: &Cluster, type_: &str) -> String {
    let status = status(cluster);
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or_else(String::new, |condition| condition.message.clone())
}

/// The steps of the stored plan.
pub fn steps(cluster: &Cluster) -> Vec<String> {
    let plan = status(cluster).plan;
    plan.map(|plan| plan.tasks.into_iter().map(|task| task.task_type).collect()).unwrap_or_default()
}
