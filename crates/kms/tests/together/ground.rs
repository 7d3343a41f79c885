//! What is read of the object that reports stand on.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::Value;

/// How long things that take a moment may take, on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

/// The nodes of which reports stand.
pub fn reported(object: &DynamicObject) -> Vec<String> {
    let reports = object.data["status"]["healthReports"].as_array().cloned().unwrap_or_default();
    let name = |one: &Value| one["nodeName"].as_str().unwrap_or_default().to_owned();
    let mut nodes: Vec<String> = reports.iter().map(name).collect();
    nodes.sort();
    nodes
}
