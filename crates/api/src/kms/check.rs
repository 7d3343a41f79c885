//! The result of checking a plugin, step by step: printed by `kms-check` and published by the preflight check.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The result of checking a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginCheck {
    /// Socket of the plugin.
    pub socket: String,
    /// Whether an API server could use the plugin.
    pub passed: bool,
    /// KMS API version of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// ID of its key in the KMS.
    #[serde(default, rename = "remoteKeyID", skip_serializing_if = "Option::is_none")]
    pub remote_key_id: Option<String>,
    /// The steps in the order of their execution.
    pub steps: Vec<Step>,
}

impl PluginCheck {
    /// Returns the first step that failed.
    #[must_use]
    pub fn failure(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.outcome == CheckOutcome::Failed)
    }
}

/// A step of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Name of the step.
    pub step: StepName,
    /// Outcome of the step.
    pub outcome: CheckOutcome,
    /// Duration of the call, in steps that make one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<u64>,
    /// Cause of the failure: the name of a [`Cause`](super::Cause).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Details of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The steps of a check. kube-apiserver verifies the same things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepName {
    /// Status responds with "ok".
    Status,
    /// API servers accept the version.
    Version,
    /// The key ID is present and not too long.
    #[serde(rename = "keyID")]
    KeyId,
    /// Encrypt responds.
    Encrypt,
    /// The ciphertext differs from the plaintext and is not too long.
    Ciphertext,
    /// Encrypt used the key that Status returned.
    #[serde(rename = "sameKeyID")]
    SameKeyId,
    /// API servers accept the annotations.
    Annotations,
    /// Decrypt returns the plaintext.
    Decrypt,
}

impl StepName {
    /// All steps in the order of their execution.
    pub const ALL: [Self; 8] = [
        Self::Status,
        Self::Version,
        Self::KeyId,
        Self::Encrypt,
        Self::Ciphertext,
        Self::SameKeyId,
        Self::Annotations,
        Self::Decrypt,
    ];

    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Version => "version",
            Self::KeyId => "keyID",
            Self::Encrypt => "encrypt",
            Self::Ciphertext => "ciphertext",
            Self::SameKeyId => "sameKeyID",
            Self::Annotations => "annotations",
            Self::Decrypt => "decrypt",
        }
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CheckOutcome {
    /// The step passed.
    Passed,
    /// The step failed.
    Failed,
    /// The step did not run, because an earlier one failed or it was not requested.
    Skipped,
}

impl CheckOutcome {
    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialized_names_match_as_str() {
        for step in StepName::ALL {
            assert_eq!(serde_json::to_value(step).unwrap(), step.as_str());
        }
        for outcome in [CheckOutcome::Passed, CheckOutcome::Failed, CheckOutcome::Skipped] {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }
}
