//! Fields of a spec that have no effect on a node. The condition SpecApplied names each of them.

use std::collections::BTreeSet;

use api::sei_node::SeiNodeStatus;
use serde_json::{Map, Value};

use super::context::NodeContext;
use super::kind::NodeKind;
use crate::render;

/// Returns every field that has no effect, with why and what to do.
pub(super) fn find(context: NodeContext<'_>, status: &SeiNodeStatus) -> Vec<String> {
    let NodeContext { node, kind, observed, .. } = context;
    let mut found = Vec::new();
    if node.spec.entrypoint.is_some() {
        found.push(
            "spec.entrypoint: ignored, since the operator starts seid with its own command; remove it".into(),
        );
    }
    if let NodeKind::Replayer(replayer) = kind
        && replayer.result_export.is_some()
    {
        found.push("spec.replayer.resultExport: not supported by this version; remove it".into());
    }
    for name in render::SYSTEM_LABELS.iter().filter(|name| node.spec.pod_labels.contains_key(**name)) {
        found.push(format!("spec.podLabels[{name}]: reserved, the operator sets this label; remove it"));
    }
    for (index, source) in node.spec.peers.iter().enumerate() {
        let has_peers = observed.label_peers.get(&index).is_some_and(|peers| !peers.is_empty());
        if source.label.is_some() && !has_peers {
            found.push(format!(
                "spec.peers[{index}].label: selects no node; peers are added once a node matches the selector"
            ));
        }
    }
    found.extend(snapshot_changes(kind, status));
    let uploads = status.current_snapshot_generation.is_some_and(|current| current.publish);
    if uploads && !kind.snapshot_generation().publish {
        found.push(format!(
            "spec.{}.snapshotGeneration.tendermint.publish: running uploads are not stopped; cancel the task \
             snapshot-upload of the sidecar, or set the field again",
            kind.field()
        ));
    }
    found
}

/// Returns the changes of the snapshot that a node was set up from. They have no effect after the setup.
fn snapshot_changes(kind: NodeKind<'_>, status: &SeiNodeStatus) -> Vec<String> {
    let Some(started) = &status.started_from else { return Vec::new() };
    let value = |snapshot| serde_json::to_value(snapshot).unwrap_or_default();
    let (current, initial) = (value(kind.snapshot()), value(started.snapshot.as_ref()));
    let mut paths = Vec::new();
    add_differences(&current, &initial, &format!("spec.{}.snapshot", kind.field()), &mut paths);
    let advice = "cannot change after the node is set up; set it back, or create another node";
    paths.into_iter().map(|path| format!("{path}: {advice}")).collect()
}

/// Adds the paths of the leaves in which two values differ.
fn add_differences(one: &Value, other: &Value, path: &str, paths: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let value = |object: &Map<String, Value>| object.get(name).cloned().unwrap_or_default();
                add_differences(&value(one), &value(other), &format!("{path}.{name}"), paths);
            }
        }
        // An object that was added or removed: its leaves are named, if it has any.
        (Value::Object(fields), Value::Null) | (Value::Null, Value::Object(fields)) if !fields.is_empty() => {
            for (name, value) in fields {
                add_differences(value, &Value::Null, &format!("{path}.{name}"), paths);
            }
        }
        (one, other) if one == other => {}
        _ => paths.push(path.to_owned()),
    }
}
