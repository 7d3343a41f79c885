//! The nodes of the table `cases.yaml`, and their rendered objects.

use std::collections::BTreeMap;

use api::SeiNode;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use plan::platform::{
    Bucket, EgressTarget, ObjectStore, Platform, Resources, SidecarClient, SidecarIsolation, Storage,
};
use plan::render::{self, RenderError};
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

/// Returns all cases, each with its full spec.
pub fn all() -> Vec<Case> {
    let rows: Vec<Row> = serde_saphyr::from_str(include_str!("cases.yaml")).expect("cases.yaml is valid");
    let mut specs: BTreeMap<String, Value> = BTreeMap::new();
    let mut cases = Vec::new();
    for Row { name, base, spec: change } in rows {
        let mut spec = base.as_ref().map_or(json!({}), |base| specs[base].clone());
        merge(&mut spec, &change);
        specs.insert(name.clone(), spec.clone());
        cases.push(Case { name, spec });
    }
    cases
}

impl Case {
    /// Returns the node.
    pub fn node(&self, name: &str, namespace: &str) -> SeiNode {
        serde_json::from_value(json!({
            "apiVersion": "sei.io/v1alpha1",
            "kind": "SeiNode",
            "metadata": { "name": name, "namespace": namespace, "uid": "5e1f0000-0000-4000-8000-000000000003" },
            "spec": self.spec,
        }))
        .expect("the case is a valid node")
    }
}

/// Returns a platform in which all values differ.
pub fn platform() -> Platform {
    let text = str::to_owned;
    let storage = |class, size| Storage { class: text(class), size: text(size) };
    let resources = |cpu, memory| Resources { cpu: text(cpu), memory: text(memory) };
    let bucket = |name, region| Bucket { name: text(name), region: text(region) };
    Platform {
        nodepool: text("pool-node"),
        nodepool_archive: text("pool-archive"),
        nodepool_label: Some(text("karpenter.sh/nodepool")),
        toleration_key: text("sei.io/workload"),
        service_account: text("seid-node"),
        storage: storage("fast", "2000Gi"),
        storage_archive: storage("deep", "40Ti"),
        resources: resources("4", "32Gi"),
        resources_archive: resources("48", "448Gi"),
        snapshot_bucket: bucket("snapshots", "us-east-2"),
        genesis_bucket: bucket("genesis", "eu-west-1"),
        result_export: None,
        object_store: ObjectStore::default(),
        sidecar_image: text("images.example/sidecar:v1"),
        sidecar_isolation: SidecarIsolation::Isolated,
        proxy_image: text("images.example/proxy:v2"),
        strict_references: false,
        exporter_image: text("images.example/exporter:v3"),
        chain_halt_timeout: std::time::Duration::from_secs(60),
        sidecar_clients: vec![
            SidecarClient { namespace: text("outrigger"), labels: [(text("app"), text("operator"))].into() },
            SidecarClient { namespace: text("tools"), labels: BTreeMap::new() },
        ],
        node_egress: vec![
            EgressTarget { cidr: text("10.96.0.1/32"), port: Some(443) },
            EgressTarget { cidr: text("fd00::/8"), port: None },
        ],
    }
}

/// Returns the objects of a node, in the order in which they are applied.
pub fn own_objects(node: &SeiNode) -> Vec<Value> {
    let platform = platform();
    [
        to_value(render::data_claim(node, &platform), "v1", "PersistentVolumeClaim"),
        to_value(render::certificate(node), "cert-manager.io/v1", "Certificate"),
        to_value(Ok(render::network_policy(node, &platform)), "networking.k8s.io/v1", "NetworkPolicy"),
        to_value(Ok(render::proxy_config(node)), "v1", "ConfigMap"),
        to_value(disruption_budget(node), "policy/v1", "PodDisruptionBudget"),
        to_value(render::stateful_set(node, &platform), "apps/v1", "StatefulSet"),
        to_value(Ok(render::service(node)), "v1", "Service"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the budget of a validator.
fn disruption_budget(node: &SeiNode) -> Result<PodDisruptionBudget, RenderError> {
    let validator = node.spec.validator.as_ref().map(|_| render::disruption_budget(node));
    validator.ok_or_else(|| RenderError("not a validator".into()))
}

/// Returns the objects of a node's bootstrap pod, if it has one.
pub fn bootstrap_objects(node: &SeiNode) -> Vec<Value> {
    let Ok(job) = render::bootstrap_job(node, &platform()) else { return Vec::new() };
    let service = to_value(Ok(render::bootstrap_service(node)), "v1", "Service");
    service.into_iter().chain(to_value(Ok(job), "batch/v1", "Job")).collect()
}

/// Returns an object as it is applied, or nothing if the node does not have it.
fn to_value<K: Serialize>(object: Result<K, RenderError>, version: &str, kind: &str) -> Option<Value> {
    let body = serde_json::to_value(object.ok()?).expect("the object serializes");
    assert_eq!((&body["apiVersion"], &body["kind"]), (&json!(version), &json!(kind)));
    Some(body)
}

/// Applies a JSON merge patch (RFC 7386) without removals.
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
