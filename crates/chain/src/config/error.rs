//! Configuration errors.

use super::document::FileError;
use super::finding::Finding;
use super::mode::UnknownMode;
use super::value::InvalidValue;

/// Error returned when a configuration cannot be resolved.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A non-incremental intent without a mode.
    #[error("mode is required: validator, full, seed or archive")]
    MissingMode,
    /// Unknown mode.
    #[error(transparent)]
    Mode(#[from] UnknownMode),
    /// Override of an unknown setting.
    #[error("unknown setting {0:?}; see docs/reference/node-config-fields.md")]
    UnknownKey(String),
    /// Override with an invalid value.
    #[error("override {key:?}: {value:?} {why}")]
    Value {
        /// Key.
        key: String,
        /// Value of the override.
        value: String,
        /// Reason.
        why: InvalidValue,
    },
    /// A reload without fields.
    #[error("fields is empty; name at least one setting")]
    EmptyReload,
    /// Reload of settings that require a restart.
    #[error("{0}: not reloadable on a running node; use config-apply and restart the node")]
    NotReloadable(String),
    /// An incremental intent without existing files.
    #[error("no configuration files to change; apply a non-incremental configuration first")]
    MissingFiles,
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Validation found errors.
    #[error("config validation failed: {}", json(.0))]
    Invalid(Vec<Finding>),
}

impl ConfigError {
    /// Returns the error category for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::MissingMode | Self::Mode(_) => "mode",
            Self::UnknownKey(_) | Self::EmptyReload | Self::NotReloadable(_) => "key",
            Self::Value { .. } => "value",
            Self::MissingFiles | Self::File(_) => "file",
            Self::Invalid(_) => "invalid",
        }
    }
}

fn json(findings: &[Finding]) -> String {
    serde_json::to_string(findings).unwrap_or_default()
}
