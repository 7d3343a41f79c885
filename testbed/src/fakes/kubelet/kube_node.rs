//! The Kubernetes node that all fake pods run on: a Node object and its Lease. Without it, deleted pods would
//! disappear at once and the pod garbage collector would delete orphaned pods.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::error::Result;

/// Interval of a real kubelet; a node without a heartbeat for 40 seconds becomes NotReady.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Delay after a failed heartbeat.
const RETRY: Duration = Duration::from_secs(1);

/// Creates the Node object and returns its name.
pub(super) async fn create(client: &Client, address: &str) -> Result<String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let metadata = ObjectMeta { generate_name: Some("fake-".into()), ..ObjectMeta::default() };
    let name = nodes.create(&PostParams::default(), &Node { metadata, ..Node::default() }).await?.name_any();
    let now = Time(Timestamp::now());
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": address}],
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }],
    }});
    nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(name)
}

/// Renews the Lease until the task is aborted.
pub(super) async fn renew_lease(client: Client, name: String) {
    let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
    loop {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(name.clone()),
                lease_duration_seconds: Some(40),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        };
        let renewed = leases.patch(&name, &PatchParams::apply("kubelet").force(), &Patch::Apply(lease)).await;
        tokio::time::sleep(if renewed.is_ok() { HEARTBEAT } else { RETRY }).await;
    }
}
