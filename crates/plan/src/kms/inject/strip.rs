//! What is ours in a pod, taken out again.

use api::names::kms::pod::{DATA, REPORTER, SOCKETS};
use serde_json::Value;

use super::containers::SOCKETS_FLAG;
use crate::kms::plugin::KINDS;

/// Takes out everything that an injection has put in, also for keys that are gone since.
pub(super) fn strip(pod: &mut Value, container: &str) {
    retain(pod, "initContainers", |one| !is_ours(one["name"].as_str().unwrap_or_default()));
    retain(pod, "volumes", |one| one["name"] != SOCKETS && one["name"] != DATA);
    let containers = pod["containers"].as_array_mut().into_iter().flatten();
    for one in containers.filter(|one| one["name"] == container) {
        retain(one, "volumeMounts", |mount| mount["name"] != SOCKETS);
        retain(one, "args", |arg| !arg.as_str().is_some_and(|arg| arg.starts_with(SOCKETS_FLAG)));
    }
}

fn is_ours(name: &str) -> bool {
    name == REPORTER || KINDS.iter().any(|kind| name.starts_with(kind.container_prefix()))
}

/// Keeps some of a list. A list that is empty only now was not there before us.
fn retain(of: &mut Value, name: &str, keep: impl Fn(&Value) -> bool) {
    let Value::Object(fields) = of else { return };
    let Some(Value::Array(list)) = fields.get_mut(name) else { return };
    let before = list.len();
    list.retain(keep);
    if list.is_empty() && before > 0 {
        fields.remove(name);
    }
}
