//! Fields of a spec that have no effect on a node. None is ignored in silence.

use api::SeiNode;
use api::sei_node::SeiNodeStatus;
use serde_json::Value;

use super::kind::Kind;
use super::world::World;
use crate::render;

/// Every field that has no effect, each with why and what to do.
pub(super) fn fields(node: &SeiNode, kind: Kind<'_>, status: &SeiNodeStatus, world: &World) -> Vec<String> {
    let mut found = Vec::new();
    if node.spec.entrypoint.is_some() {
        found.push("spec.entrypoint: seid is always started by the operator's own command; remove it".into());
    }
    if let Kind::Replayer(replayer) = kind
        && replayer.result_export.is_some()
    {
        found.push(
            "spec.replayer.resultExport: results are not exported by this version; remove it, or give the sidecar \
             the task result-export yourself"
                .into(),
        );
    }
    for name in render::SYSTEM_LABELS.iter().filter(|name| node.spec.pod_labels.contains_key(**name)) {
        found.push(format!("spec.podLabels[{name}]: the operator sets this label itself; remove it"));
    }
    for (index, source) in node.spec.peers.iter().enumerate() {
        let selected = world.label_peers.get(&index).is_some_and(|peers| !peers.is_empty());
        if source.label.is_some() && !selected {
            found.push(format!(
                "spec.peers[{index}].label: it selects no node, so seid is given no peers by it; they are taken up when there \
                 are some"
            ));
        }
    }
    found.extend(start(kind, status));
    let uploads = status.current_snapshot_generation.is_some_and(|current| current.publish);
    if uploads && !kind.snapshot_generation().publish {
        found.push(format!(
            "spec.{}.snapshotGeneration.tendermint.publish: uploads that were begun go on; cancel the sidecar's task \
             snapshot-upload, or set it again",
            kind.field()
        ));
    }
    found
}

/// What a node began with cannot be changed any more.
fn start(kind: Kind<'_>, status: &SeiNodeStatus) -> Vec<String> {
    let Some(started) = &status.started_from else { return Vec::new() };
    let value = |snapshot| serde_json::to_value(snapshot).unwrap_or_default();
    let (now, then) = (value(kind.snapshot()), value(started.snapshot.as_ref()));
    let mut paths = Vec::new();
    differences(&now, &then, &format!("spec.{}.snapshot", kind.field()), &mut paths);
    let why = "a node cannot begin anew; set it back, or create another node";
    paths.into_iter().map(|path| format!("{path}: {why}")).collect()
}

/// Paths of the leaves in which two values differ.
fn differences(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let value = |of: &serde_json::Map<String, Value>| of.get(name).cloned().unwrap_or_default();
                differences(&value(one), &value(other), &format!("{path}.{name}"), found);
            }
        }
        // A whole object more or less: its leaves are named, if it has any.
        (Value::Object(fields), Value::Null) | (Value::Null, Value::Object(fields)) if !fields.is_empty() => {
            for (name, value) in fields {
                differences(value, &Value::Null, &format!("{path}.{name}"), found);
            }
        }
        (one, other) if one == other => {}
        _ => found.push(path.to_owned()),
    }
}
