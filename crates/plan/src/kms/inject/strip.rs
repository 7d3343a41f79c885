//! Removal of injected containers and volumes.

use api::names::kms::pod::{DATA, REPORTER, SOCKETS};
use serde_json::Value;

use super::containers::SOCKETS_FLAG;
use crate::kms::plugin::KINDS;

/// Removes everything that was injected, including plugins of removed keys.
pub(super) fn strip(pod: &mut Value, container: &str) {
    retain(pod, "initContainers", |one| !is_injected(one["name"].as_str().unwrap_or_default()));
    retain(pod, "volumes", |one| one["name"] != SOCKETS && one["name"] != DATA);
    let containers = pod["containers"].as_array_mut().into_iter().flatten();
    for one in containers.filter(|one| one["name"] == container) {
        retain(one, "volumeMounts", |mount| mount["name"] != SOCKETS);
        retain(one, "args", |arg| !arg.as_str().is_some_and(|arg| arg.starts_with(SOCKETS_FLAG)));
    }
}

fn is_injected(name: &str) -> bool {
    name == REPORTER || KINDS.iter().any(|kind| name.starts_with(kind.container_prefix()))
}

/// Retains list elements. A list that becomes empty is removed, because the injection created it.
fn retain(object: &mut Value, name: &str, keep: impl Fn(&Value) -> bool) {
    let Value::Object(fields) = object else { return };
    let Some(Value::Array(list)) = fields.get_mut(name) else { return };
    let before = list.len();
    list.retain(keep);
    if list.is_empty() && before > 0 {
        fields.remove(name);
    }
}
