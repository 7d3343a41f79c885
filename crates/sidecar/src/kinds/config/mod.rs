//! Task kinds that change the node's config files. `chain` decides their content; this module reads and writes them.

pub(super) mod apply;
pub(super) mod patch;
pub(super) mod reload;
pub(super) mod validate;

use std::time::Duration;

use chain::config::{Finding, Resolved, table::File, unknown_keys};
use serde_json::{Value, json};

use super::Deadline;

/// Enough to read and write two small files.
const DEADLINE: Deadline = Deadline::After(Duration::from_secs(120));

/// Returns the task result: mode, version, warnings and unknown keys.
fn result(resolved: &Resolved, is_incremental: bool) -> Value {
    let mut result = json!({ "mode": resolved.mode.name(), "version": resolved.version });
    if !resolved.findings.is_empty() {
        result["warnings"] = json!(resolved.findings);
    }
    // Only edited files can hold unknown keys; newly rendered ones cannot.
    let unknown = if is_incremental { unknown_keys(&resolved.files).unwrap_or_default() } else { Vec::new() };
    if !unknown.is_empty() {
        let qualified = |(file, key): &(File, String)| format!("{}: {key}", file.name());
        result["unknownKeys"] = unknown.iter().map(qualified).collect();
    }
    result
}

/// Logs config warnings.
fn log_warnings(id: &str, findings: &[Finding]) {
    for finding in findings {
        tracing::warn!(id, field = finding.field, warning = finding.message, "config warning");
    }
}
