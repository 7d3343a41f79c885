//! Formats check results.

use std::fmt::Write;

use api::kms::check::{CheckOutcome, PluginCheck, Step, StepName};

/// Renders a table with a line per step and the overall result of each plugin.
#[must_use]
pub fn render_table(checks: &[PluginCheck]) -> String {
    let mut text = String::new();
    for check in checks {
        let _ = writeln!(text, "{}", check.socket);
        for step in &check.steps {
            let took = step.milliseconds.map(|time| format!("{time} ms")).unwrap_or_default();
            let line = format!(
                "  {:<12} {:<8} {took:>8}  {}",
                step.step.as_str(),
                step.outcome.as_str(),
                step_detail(check, step)
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let _ = writeln!(text, "  {}", if check.passed { "passed" } else { "failed" });
    }
    text
}

/// Returns the last column of a step: its cause and detail, or the value that passed.
fn step_detail(check: &PluginCheck, step: &Step) -> String {
    let value = match (step.outcome, step.step) {
        (CheckOutcome::Passed, StepName::Version) => check.version.clone(),
        (CheckOutcome::Passed, StepName::KeyId) => check.remote_key_id.clone(),
        _ => None,
    };
    // A detail may already start with its cause.
    let cause =
        step.cause.as_deref().filter(|cause| !step.detail.as_deref().unwrap_or_default().starts_with(*cause));
    let parts = [cause.map(str::to_owned), step.detail.clone(), value];
    parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// Renders an indented JSON array.
pub fn render_json(checks: &[PluginCheck]) -> Result<String, serde_json::Error> {
    Ok(format!("{}\n", serde_json::to_string_pretty(checks)?))
}
