//! The machine that all pods are on: a Node object and its lease. Without it, pods would be gone at once when deleted,
//! and the controller that collects orphans would take them.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::error::Result;

/// As often as a real kubelet; a machine that is silent for forty seconds is taken for dead.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// After a heartbeat that failed, there is little time.
const RETRY: Duration = Duration::from_secs(1);

/// Makes the machine, and returns its name.
pub(super) async fn make(client: &Client, address: &str) -> Result<String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let metadata = ObjectMeta { generate_name: Some("played-".into()), ..ObjectMeta::default() };
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

/// Keeps the machine alive until it is dropped.
pub(super) async fn keep_alive(client: Client, name: String) {
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
