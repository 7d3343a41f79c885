//! Grants updates that no edit of a node asks for. Which node may be updated follows from the watched nodes, so that a new leader
//! grants the same; only what was granted and is not visible in the watch yet is remembered.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use api::SeiNode;
use plan::node::{DisruptionLimit, PacedNode, UpdateSlot, grant};
use runtime::Key;
use runtime::sync::lock;
use runtime::watch::Change;

/// How long a grant counts that does not become visible: its reconcile failed before it stored the plan.
const GRANT_LIMIT: Duration = Duration::from_secs(60);

/// How many nodes are woken when a slot is free. Those that find it taken wait again.
const WOKEN: usize = 8;

/// The update slots of all nodes.
#[derive(Debug)]
pub(super) struct UpdateSlots {
    limit: DisruptionLimit,
    nodes: Mutex<HashMap<Key, Entry>>,
}

#[derive(Debug)]
struct Entry {
    node: PacedNode,
    granted_at: Option<Instant>,
}

impl Entry {
    /// Returns the node, with an update that was granted and is not visible yet.
    fn current(&self, now: Instant) -> PacedNode {
        let is_granted = self.granted_at.is_some_and(|at| now.duration_since(at) < GRANT_LIMIT);
        if is_granted { self.node.clone().with_granted_update() } else { self.node.clone() }
    }
}

impl UpdateSlots {
    pub(super) fn new(limit: DisruptionLimit) -> Self {
        Self { limit, nodes: Mutex::default() }
    }

    /// Updates the slots from a change of a node. Returns the nodes whose turn may have come.
    pub(super) fn update(&self, change: &Change<SeiNode>) -> Vec<Key> {
        let node = change.object();
        let key = Key::from_object(&**node);
        let mut nodes = lock(&self.nodes);
        let before = nodes.remove(&key);
        let node = PacedNode::new(node);
        let is_free = matches!(change, Change::Deleted(_)) || node.works();
        let is_freed = is_free && before.as_ref().is_some_and(|before| !before.node.works());
        if !matches!(change, Change::Deleted(_)) {
            let granted_at = before.and_then(|before| before.granted_at).filter(|_| !node.is_disrupted());
            nodes.insert(key, Entry { node, granted_at });
        }
        if is_freed { first_in_queue(&nodes) } else { Vec::new() }
    }

    /// Requests an update for a node, and reserves it if it is granted.
    pub(super) fn request(&self, key: &Key, node: &SeiNode) -> UpdateSlot {
        let (node, now) = (PacedNode::new(node), Instant::now());
        let mut nodes = lock(&self.nodes);
        let current: Vec<(PacedNode, bool)> = nodes
            .iter()
            .filter(|(other, _)| *other != key)
            .map(|(other, entry)| {
                (entry.current(now), (&other.namespace, &other.name) < (&key.namespace, &key.name))
            })
            .collect();
        match grant(&node, current.iter().map(|(other, is_ahead)| (other, *is_ahead)), self.limit) {
            Ok(()) => {
                nodes.insert(key.clone(), Entry { node, granted_at: Some(now) });
                UpdateSlot::Granted
            }
            Err(queued) => UpdateSlot::Queued(queued),
        }
    }
}

/// Returns the first nodes of the queue. The others ask from time to time.
fn first_in_queue(nodes: &HashMap<Key, Entry>) -> Vec<Key> {
    let mut queued: Vec<(&Key, &PacedNode)> = nodes
        .iter()
        .filter(|(_, entry)| entry.node.is_queued())
        .map(|(key, entry)| (key, &entry.node))
        .collect();
    queued.sort_by_key(|(key, node)| (node.is_validator(), &key.namespace, &key.name));
    queued.into_iter().take(WOKEN).map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str, ready: &str, update: Value, plan: Value) -> Arc<SeiNode> {
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-05-18T10:00:00Z",
            })
        };
        let mut conditions = vec![condition("Ready", ready, "NodeReady")];
        conditions.extend(update.as_str().map(|reason| condition("NodeUpdateInProgress", "False", reason)));
        let node = json!({
            "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode",
            "metadata": { "name": name, "namespace": "sei" },
            "spec": { "chainId": name, "image": "i", "fullNode": {} },
            "status": { "phase": "Running", "conditions": conditions, "plan": plan },
        });
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn key(name: &str) -> Key {
        Key { namespace: "sei".into(), name: name.into() }
    }

    #[test]
    fn grant_counts_before_it_is_visible_and_its_end_wakes_the_next() {
        let slots = UpdateSlots::new(DisruptionLimit::Count(1));
        let ready = |name: &str| node(name, "True", Value::Null, Value::Null);
        let queued = |name: &str| node(name, "True", json!("UpdateQueued"), Value::Null);
        let updating =
            node("a", "False", Value::Null, json!({ "kind": "NodeUpdate", "phase": "Active", "tasks": [] }));
        for name in ["a", "b", "c"] {
            slots.update(&Change::Listed(ready(name)));
        }
        assert_eq!(slots.request(&key("a"), &ready("a")), UpdateSlot::Granted);
        assert!(matches!(slots.request(&key("b"), &ready("b")), UpdateSlot::Queued(_)), "not visible yet");
        assert_eq!(
            slots.request(&key("a"), &ready("a")),
            UpdateSlot::Granted,
            "asked again before it is stored"
        );
        slots.update(&Change::Applied(updating.clone(), None));
        for name in ["c", "b"] {
            slots.update(&Change::Applied(queued(name), None));
        }
        assert!(matches!(slots.request(&key("b"), &queued("b")), UpdateSlot::Queued(_)));
        assert_eq!(slots.update(&Change::Applied(updating, None)), [], "it still is");
        assert_eq!(slots.update(&Change::Applied(ready("a"), None)), [key("b"), key("c")]);
        assert_eq!(slots.request(&key("b"), &queued("b")), UpdateSlot::Granted);
        assert_eq!(slots.update(&Change::Deleted(ready("a"))), [], "it did not hold a slot");
    }
}
