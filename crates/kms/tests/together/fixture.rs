//! Helpers for the object that holds reports.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::Value;

/// Timeout for expected changes, on a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the nodes that have reports.
pub fn reported_nodes(object: &DynamicObject) -> Vec<String> {
    let reports = object.data["status"]["healthReports"].as_array().cloned().unwrap_or_default();
    let name = |one: &Value| one["nodeName"].as_str().unwrap_or_default().to_owned();
    let mut nodes: Vec<String> = reports.iter().map(name).collect();
    nodes.sort();
    nodes
}
