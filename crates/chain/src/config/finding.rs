//! Validation findings.

use serde::Serialize;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// The configuration must not be used.
    Error,
    /// The configuration may be used but should be reviewed.
    Warning,
}

/// Problem found in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Severity.
    pub severity: Severity,
    /// Dotted key.
    pub field: String,
    /// Problem and fix.
    pub message: String,
}

/// Findings in the order of the rules.
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

/// Reports whether none of the findings is an error.
#[must_use]
pub fn is_usable(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.severity != Severity::Error)
}
