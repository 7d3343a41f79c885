//! Determines which nodes and keys are expected to report.

use std::collections::{BTreeMap, BTreeSet};

use api::kms::{ExpectedKey, KMSHealthSpec, KeyRole};
use k8s_openapi::api::core::v1::Pod;
use plan::kms::rollup::{ExpectedNode, ExpectedReporters, Reports};
use serde_json::Value;

use super::deployed_keys::{DeployedKeys, Error};

/// Placeholder key of nodes that are expected to report while no key is known.
const UNKNOWN_KEY: &str = "-";

/// An API server instance on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerInstance {
    pub(super) node: String,
    pub(super) running: bool,
    /// Revision of its encryption configuration, if known.
    pub(super) revision: Option<i64>,
}

/// Returns the static pods in the operator's `nodeStatuses`. A node without a revision has no pod yet.
pub(super) fn static_pods(status: &Value) -> Vec<ServerInstance> {
    let statuses = status["nodeStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let server = |one: &Value| {
        let revision = one["currentRevision"].as_i64().filter(|revision| *revision > 0);
        Some(ServerInstance {
            node: one["nodeName"].as_str()?.to_owned(),
            running: revision.is_some(),
            revision,
        })
    };
    statuses.iter().filter_map(server).collect()
}

/// Returns the ready pods of a Deployment, one per node: during a rollout, the one with the newer revision.
pub(super) fn ready_pods(pods: &[std::sync::Arc<Pod>], status: &Value) -> Vec<ServerInstance> {
    let latest = status["latestAvailableRevision"].as_i64().filter(|revision| *revision > 0);
    let mut nodes: BTreeMap<&str, Option<i64>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| is_ready(pod)) {
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else { continue };
        let labels = pod.metadata.labels.as_ref();
        let revision =
            labels.and_then(|labels| labels.get("revision")).and_then(|text| text.parse().ok()).or(latest);
        let newest = nodes.entry(node).or_default();
        *newest = (*newest).max(revision);
    }
    let server = |(node, revision): (&str, Option<i64>)| ServerInstance {
        node: node.to_owned(),
        running: true,
        revision,
    };
    nodes.into_iter().map(server).collect()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = |all: &Vec<_>| {
        all.iter().any(|one: &k8s_openapi::api::core::v1::PodCondition| {
            one.type_ == "Ready" && one.status == "True"
        })
    };
    pod.metadata.deletion_timestamp.is_none() && conditions.is_some_and(ready)
}

/// Expects each server to report the keys of its own revision: they differ during a rollout.
pub(super) async fn from_servers(
    servers: Vec<ServerInstance>,
    deployed: &DeployedKeys,
    namespace: &str,
) -> Result<ExpectedReporters, Error> {
    // A server that does not run yet will start with the newest revision.
    let newest = servers.iter().filter_map(|server| server.revision).max();
    let mut nodes = Vec::new();
    let mut kms = false;
    for server in servers {
        let keys = deployed.keys(namespace, server.revision.or(newest)).await?;
        kms |= !keys.is_empty();
        nodes.push(ExpectedNode { name: server.node, running: server.running, keys });
    }
    if nodes.is_empty() {
        kms = !deployed.keys(namespace, None).await?.is_empty();
    }
    Ok(ExpectedReporters { kms, nodes })
}

/// Expects what the spec of a KMSHealth lists. Omitted nodes or keys default to the reported ones.
pub(super) fn from_spec(spec: &KMSHealthSpec, reports: &Reports) -> ExpectedReporters {
    let reported = reports.valid.iter().map(|one| one.node.clone());
    let unreadable = reports.malformed.iter().map(|one| one.node.clone());
    let names: BTreeSet<String> = if spec.expected_nodes.is_empty() {
        reported.chain(unreadable).collect()
    } else {
        spec.expected_nodes.iter().cloned().collect()
    };
    let mut keys = spec.expected_keys.clone();
    if keys.is_empty() {
        let of_expected = reports.valid.iter().filter(|one| names.contains(&one.node));
        let found: BTreeSet<(Option<u64>, String)> =
            of_expected.map(|one| (one.key.parse().ok(), one.key.clone())).collect();
        let role = |index| if index == 0 { KeyRole::Write } else { KeyRole::Read };
        let newest_first = found.into_iter().rev().enumerate();
        keys = newest_first.map(|(index, (_, key_id))| ExpectedKey { key_id, role: role(index) }).collect();
    }
    if keys.is_empty() && !names.is_empty() {
        keys.push(ExpectedKey { key_id: UNKNOWN_KEY.into(), role: KeyRole::Write });
    }
    let nodes = names.into_iter().map(|name| ExpectedNode { name, running: true, keys: keys.clone() });
    let nodes: Vec<ExpectedNode> = nodes.collect();
    ExpectedReporters { kms: !keys.is_empty(), nodes }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::kms::KmsTarget;
    use plan::kms::target::report_location;
    use serde_json::json;

    use super::*;
    use crate::aggregator::reports::parse;

    fn pod(node: &str, ready: &str, revision: Option<&str>) -> Arc<Pod> {
        let labels = revision.map(|revision| json!({ "revision": revision }));
        Arc::new(
            serde_json::from_value(json!({
                "metadata": { "name": node, "labels": labels },
                "spec": { "nodeName": node, "containers": [] },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            }))
            .unwrap(),
        )
    }

    fn server(node: &str, running: bool, revision: Option<i64>) -> ServerInstance {
        ServerInstance { node: node.into(), running, revision }
    }

    #[test]
    fn static_pod_without_revision_is_not_running() {
        let status =
            json!({ "nodeStatuses": [{ "nodeName": "a", "currentRevision": 7 }, { "nodeName": "b" }] });
        assert_eq!(static_pods(&status), [server("a", true, Some(7)), server("b", false, None)]);
    }

    #[test]
    fn ready_pods_count_once_per_node_with_newest_revision() {
        let pods = [
            pod("a", "True", Some("3")),
            pod("a", "True", Some("4")),
            pod("b", "False", Some("4")),
            pod("c", "True", None),
        ];
        let servers = ready_pods(&pods, &json!({ "latestAvailableRevision": 5 }));
        assert_eq!(servers, [server("a", true, Some(4)), server("c", true, Some(5))]);
    }

    fn reports(entries: &[(&str, &str)]) -> Reports {
        let entry = |(node, key): &(&str, &str)| json!({ "nodeName": node, "keyID": key, "status": "Healthy", "lastCheckedTime": "2026-05-18T10:00:00Z" });
        let list: Vec<Value> = entries.iter().map(entry).collect();
        parse(&json!({ "status": { "healthReports": list } }), report_location(KmsTarget::KmsHealth))
    }

    #[test]
    fn omitted_spec_fields_default_to_reported() {
        let spec = |document| serde_json::from_value::<KMSHealthSpec>(document).unwrap();
        let reported = reports(&[("a", "9"), ("a", "10"), ("b", "9")]);
        let open = from_spec(&spec(json!({})), &reported);
        assert!(open.kms);
        let keys: Vec<_> = open.nodes[0].keys.iter().map(|key| (key.key_id.as_str(), key.role)).collect();
        assert_eq!(
            keys,
            [("10", KeyRole::Write), ("9", KeyRole::Read)],
            "the highest number is the write key"
        );
        assert_eq!(open.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(!from_spec(&spec(json!({})), &Reports::default()).kms, "no reports");
        let nodes = from_spec(&spec(json!({ "expectedNodes": ["b", "c"] })), &reported);
        assert_eq!(nodes.nodes.len(), 2);
        assert_eq!(nodes.nodes[0].keys.len(), 1, "keys of unexpected nodes are ignored");
        let silent = from_spec(&spec(json!({ "expectedNodes": ["c"] })), &Reports::default());
        assert!(silent.kms && silent.nodes[0].keys[0].key_id == UNKNOWN_KEY, "missing reports are detected");
    }
}
