//! Why there is no configuration.

use super::document::FileError;
use super::finding::Finding;
use super::mode::UnknownMode;
use super::value::Unfit;

/// Why there is no configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// An intent that is not incremental says no mode.
    #[error("mode is missing; it is validator, full, seed or archive")]
    NoMode,
    /// The mode is none.
    #[error(transparent)]
    Mode(#[from] UnknownMode),
    /// An override of a setting that does not exist.
    #[error("override {0:?} is no setting; docs/reference/node-config-fields.md lists them")]
    UnknownKey(String),
    /// An override whose value does not fit.
    #[error("override {key:?}: {value:?} {why}")]
    Value {
        /// The key.
        key: String,
        /// What was given.
        value: String,
        /// What is wrong.
        why: Unfit,
    },
    /// Nothing to reload.
    #[error("fields is empty; name at least one setting")]
    NothingToReload,
    /// Settings that need a restart.
    #[error("{0} cannot be changed on a running node; use config-apply and restart it")]
    NotReloadable(String),
    /// A change was asked for of files that are not there.
    #[error("there are no files to change; apply a whole configuration first")]
    NoFiles,
    /// A file that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The configuration must not be used.
    #[error("config validation failed: {}", json(.0))]
    Invalid(Vec<Finding>),
}

impl ConfigError {
    /// A word for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::NoMode | Self::Mode(_) => "mode",
            Self::UnknownKey(_) | Self::NothingToReload | Self::NotReloadable(_) => "key",
            Self::Value { .. } => "value",
            Self::NoFiles | Self::File(_) => "file",
            Self::Invalid(_) => "invalid",
        }
    }
}

fn json(findings: &[Finding]) -> String {
    serde_json::to_string(findings).unwrap_or_default()
}
