//! The kinds that change a node's settings. What may stand there is decided in `chain`; here files are read and written.

pub(super) mod apply;
pub(super) mod patch;
pub(super) mod reload;
pub(super) mod validate;

use std::time::Duration;

use chain::config::{Finding, Resolved, table::File, unknown_keys};
use serde_json::{Value, json};

use super::Limit;

/// Reading and writing two small files.
const LIMIT: Limit = Limit::Within(Duration::from_secs(120));

/// What somebody should know of settings that were written.
fn told(resolved: &Resolved, kept: bool) -> Value {
    let mut result = json!({ "mode": resolved.mode.name(), "version": resolved.version });
    if !resolved.findings.is_empty() {
        result["warnings"] = json!(resolved.findings);
    }
    // Files that were changed may hold what no setting has; files that were made anew do not.
    let unknown = if kept { unknown_keys(&resolved.files).unwrap_or_default() } else { Vec::new() };
    if !unknown.is_empty() {
        let name = |(file, key): &(File, String)| format!("{}: {key}", file.name());
        result["unknownKeys"] = unknown.iter().map(name).collect();
    }
    result
}

/// Writes what somebody should look at into the log.
fn warn(id: &str, findings: &[Finding]) {
    for finding in findings {
        tracing::warn!(id, field = finding.field, message = finding.message, "settings");
    }
}
