//! What a check found, for people and for programs.

use std::fmt::Write;

use api::kms::check::{Outcome, PluginCheck};

/// For people: a line for each step, and one that says how it went.
#[must_use]
pub fn table(checks: &[PluginCheck]) -> String {
    let mut text = String::new();
    for check in checks {
        let _ = writeln!(text, "{}", check.socket);
        for step in &check.steps {
            let took = step.milliseconds.map(|time| format!("{time} ms")).unwrap_or_default();
            let line = format!(
                "  {:<12} {:<8} {took:>8}  {}",
                step.step.as_str(),
                step.outcome.as_str(),
                told(check, step)
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let _ = writeln!(text, "  {}", if check.passed { "good" } else { "bad" });
    }
    text
}

/// What is worth telling of a step.
fn told(check: &PluginCheck, step: &api::kms::check::Step) -> String {
    use api::kms::check::StepName;
    let known = match (step.outcome, step.step) {
        (Outcome::Passed, StepName::Version) => check.version.clone(),
        (Outcome::Passed, StepName::KeyId) => check.remote_key_id.clone(),
        _ => None,
    };
    // A detail may begin with its cause.
    let cause =
        step.cause.as_deref().filter(|cause| !step.detail.as_deref().unwrap_or_default().starts_with(*cause));
    let parts = [cause.map(str::to_owned), step.detail.clone(), known];
    parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// For programs.
pub fn json(checks: &[PluginCheck]) -> Result<String, serde_json::Error> {
    Ok(format!("{}\n", serde_json::to_string_pretty(checks)?))
}
