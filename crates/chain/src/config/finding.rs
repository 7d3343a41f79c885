//! What is wrong with a configuration.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// The configuration must not be used.
    Error,
    /// It may be used, and somebody should look.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The dotted key.
    pub field: String,
    /// What is wrong, and the cure.
    pub message: String,
}

/// Things that are wrong, in the order of the rules.
#[derive(Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    pub(crate) fn error(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Error, field: field.into(), message: message.into() });
    }

    pub(crate) fn warning(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Warning, field: field.into(), message: message.into() });
    }
}

/// Whether a configuration may be used in spite of what was found.
#[must_use]
pub fn usable(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.severity != Severity::Error)
}
