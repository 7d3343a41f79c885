//! The nodes that are rendered, and everything that is rendered for them.

use std::collections::BTreeMap;

use api::SeiNode;
use plan::platform::{Bucket, Client, ObjectStore, Platform, Resources, Storage};
use plan::render::{self, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A node of the table.
pub struct Case {
    pub name: String,
    spec: Value,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    base: Option<String>,
    spec: Value,
}

/// All cases, each with its whole spec.
pub fn all() -> Vec<Case> {
    let rows: Vec<Row> = serde_saphyr::from_str(include_str!("cases.yaml")).expect("the cases are YAML");
    let mut whole: BTreeMap<String, Value> = BTreeMap::new();
    let mut cases = Vec::new();
    for Row { name, base, spec: change } in rows {
        let mut spec = base.as_ref().map_or(json!({}), |base| whole[base].clone());
        merge(&mut spec, &change);
        whole.insert(name.clone(), spec.clone());
        cases.push(Case { name, spec });
    }
    cases
}

impl Case {
    /// The node.
    pub fn node(&self, name: &str, namespace: &str) -> SeiNode {
        serde_json::from_value(json!({
            "apiVersion": "sei.io/v1alpha1",
            "kind": "SeiNode",
            "metadata": { "name": name, "namespace": namespace, "uid": "5e1f0000-0000-4000-8000-000000000003" },
            "spec": self.spec,
        }))
        .expect("the case is a node")
    }
}

/// A platform in which no two values are the same.
pub fn platform() -> Platform {
    let text = str::to_owned;
    let storage = |class, size| Storage { class: text(class), size: text(size) };
    let resources = |cpu, memory| Resources { cpu: text(cpu), memory: text(memory) };
    let bucket = |name, region| Bucket { name: text(name), region: text(region) };
    Platform {
        nodepool: text("pool-node"),
        nodepool_archive: text("pool-archive"),
        toleration_key: text("sei.io/workload"),
        service_account: text("seid-node"),
        storage: storage("fast", "2000Gi"),
        storage_archive: storage("deep", "40Ti"),
        resources: resources("4", "32Gi"),
        resources_archive: resources("48", "448Gi"),
        snapshot_bucket: bucket("snapshots", "us-east-2"),
        genesis_bucket: bucket("genesis", "eu-west-1"),
        object_store: ObjectStore::default(),
        sidecar_image: text("images.example/sidecar:v1"),
        proxy_image: text("images.example/proxy:v2"),
        proxy_token_audience: None,
        exporter_image: text("images.example/exporter:v3"),
        sidecar_clients: vec![
            Client { namespace: text("outrigger"), labels: [(text("app"), text("operator"))].into() },
            Client { namespace: text("tools"), labels: BTreeMap::new() },
        ],
    }
}

/// Everything that is rendered for a node's own pod, in the order in which it is applied.
pub fn own_objects(node: &SeiNode) -> Vec<Value> {
    let platform = platform();
    [
        made(render::data_claim(node, &platform), "v1", "PersistentVolumeClaim"),
        made(render::certificate(node), "cert-manager.io/v1", "Certificate"),
        made(Ok(render::network_policy(node, &platform)), "networking.k8s.io/v1", "NetworkPolicy"),
        made(Ok(render::proxy_config(node)), "v1", "ConfigMap"),
        made(render::stateful_set(node, &platform), "apps/v1", "StatefulSet"),
        made(Ok(render::service(node)), "v1", "Service"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What is rendered for a node's bootstrap pod, if it has one.
pub fn bootstrap_objects(node: &SeiNode) -> Vec<Value> {
    let Ok(job) = render::bootstrap_job(node, &platform()) else { return Vec::new() };
    let service = made(Ok(render::bootstrap_service(node)), "v1", "Service");
    service.into_iter().chain(made(Ok(job), "batch/v1", "Job")).collect()
}

/// An object as it is applied; nothing for one that the node does not have.
fn made<K: Serialize>(object: Result<K, Refusal>, version: &str, kind: &str) -> Option<Value> {
    let body = serde_json::to_value(object.ok()?).expect("an object is JSON");
    assert_eq!((&body["apiVersion"], &body["kind"]), (&json!(version), &json!(kind)));
    Some(body)
}

/// A JSON merge patch (RFC 7386) without removal.
fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(target.entry(name).or_insert(json!({})), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}
