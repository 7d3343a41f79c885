//! The nodes that a configuration is checked from.

use k8s_openapi::api::core::v1::Node;

/// Names of those that a pod can run on now, in order: one that is broken or being emptied would keep every configuration from
/// being used.
#[must_use]
pub fn usable(nodes: &[Node]) -> Vec<String> {
    let mut names: Vec<String> =
        nodes.iter().filter(|node| is_usable(node)).filter_map(|node| node.metadata.name.clone()).collect();
    names.sort();
    names
}

fn is_usable(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    let closed = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    ready && !closed && node.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_that_are_broken_closed_or_leaving_are_left_out() {
        let node = |name: &str, ready: &str, closed: bool, leaves: Option<&str>| -> Node {
            serde_json::from_value(json!({
                "metadata": { "name": name, "deletionTimestamp": leaves },
                "spec": { "unschedulable": closed },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            }))
            .unwrap()
        };
        let all = [
            node("b", "True", false, None),
            node("a", "True", false, None),
            node("broken", "Unknown", false, None),
            node("closed", "True", true, None),
            node("leaves", "True", false, Some("2026-05-18T10:00:00Z")),
        ];
        assert_eq!(usable(&all), ["a", "b"]);
    }
}
