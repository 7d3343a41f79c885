//! Node modes.

use std::fmt;
use std::str::FromStr;

/// Role of a node, which determines its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Signs blocks.
    Validator,
    /// Serves queries.
    Full,
    /// Serves peer addresses only.
    Seed,
    /// Serves queries for the full history.
    Archive,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Validator, Self::Full, Self::Seed, Self::Archive];

    /// Returns the name used in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Validator => "validator",
            Self::Full => "full",
            Self::Seed => "seed",
            Self::Archive => "archive",
        }
    }

    /// Returns the name for seid, which rejects `archive`.
    #[must_use]
    pub fn name_in_config_toml(self) -> &'static str {
        match self {
            Self::Archive => Self::Full.name(),
            other => other.name(),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error returned for an unknown mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode {0:?}: expected validator, full, seed or archive")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| UnknownMode(text.into()))
    }
}
