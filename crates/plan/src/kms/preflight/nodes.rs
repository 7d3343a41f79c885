//! Nodes that run preflight pods.

use k8s_openapi::api::core::v1::Node;

/// Returns the sorted names of schedulable nodes. A broken or drained node would otherwise block every configuration.
#[must_use]
pub fn schedulable_nodes(nodes: &[Node]) -> Vec<String> {
    let mut names: Vec<String> =
        nodes.iter().filter(|node| is_usable(node)).filter_map(|node| node.metadata.name.clone()).collect();
    names.sort();
    names
}

fn is_usable(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready =
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    is_ready && !is_cordoned && node.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unready_cordoned_and_deleted_nodes_are_excluded() {
        let node = |name: &str, ready: &str, cordoned: bool, deleted: Option<&str>| -> Node {
            serde_json::from_value(json!({
                "metadata": { "name": name, "deletionTimestamp": deleted },
                "spec": { "unschedulable": cordoned },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            }))
            .unwrap()
        };
        let all = [
            node("b", "True", false, None),
            node("a", "True", false, None),
            node("broken", "Unknown", false, None),
            node("cordoned", "True", true, None),
            node("deleted", "True", false, Some("2026-05-18T10:00:00Z")),
        ];
        assert_eq!(schedulable_nodes(&all), ["a", "b"]);
    }
}
