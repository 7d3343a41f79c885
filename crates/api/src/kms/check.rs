//! What a check of a plugin found, step by step: printed by `kms-check`, and posted by the check before a configuration is used.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a check of one plugin found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginCheck {
    /// Where the plugin listens.
    pub socket: String,
    /// Whether an API server could use it.
    pub passed: bool,
    /// The version that it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Id of its key in the KMS.
    #[serde(default, rename = "remoteKeyID", skip_serializing_if = "Option::is_none")]
    pub remote_key_id: Option<String>,
    /// The steps, in the order in which they were taken.
    pub steps: Vec<Step>,
}

impl PluginCheck {
    /// The first step that failed.
    #[must_use]
    pub fn failure(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.outcome == Outcome::Failed)
    }
}

/// One step of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Which one.
    pub step: StepName,
    /// How it ended.
    pub outcome: Outcome,
    /// How long the call took, in a step that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<u64>,
    /// Why it failed: one word of a closed list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What was said or seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The steps of a check. Each is one that kube-apiserver takes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepName {
    /// Status answers, and says "ok".
    Status,
    /// It speaks a version that API servers accept.
    Version,
    /// It names a key, with an id that is not too long.
    #[serde(rename = "keyID")]
    KeyId,
    /// Encrypt answers.
    Encrypt,
    /// With a text that is encrypted, and not too long.
    Ciphertext,
    /// With the key that Status names.
    #[serde(rename = "sameKeyID")]
    SameKeyId,
    /// With annotations that API servers accept.
    Annotations,
    /// Decrypt gives back what was encrypted.
    Decrypt,
}

impl StepName {
    /// All of them, in their order.
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

    /// Its name.
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

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed,
    /// It was not taken, since an earlier one failed or it was not asked for.
    Skipped,
}

impl Outcome {
    /// Its name.
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
    fn steps_are_written_by_their_names() {
        for step in StepName::ALL {
            assert_eq!(serde_json::to_value(step).unwrap(), step.as_str());
        }
        for outcome in [Outcome::Passed, Outcome::Failed, Outcome::Skipped] {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }
}
