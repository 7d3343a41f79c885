//! What a node is for.

use std::fmt;
use std::str::FromStr;

/// What a node is for; it decides the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Signs blocks.
    Validator,
    /// Answers queries.
    Full,
    /// Only knows peers.
    Seed,
    /// Answers queries about everything that ever was.
    Archive,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Validator, Self::Full, Self::Seed, Self::Archive];

    /// Its name, as people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Validator => "validator",
            Self::Full => "full",
            Self::Seed => "seed",
            Self::Archive => "archive",
        }
    }

    /// Its name for seid, which refuses `archive`.
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

/// A text that is no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mode {0:?} is unknown; it is validator, full, seed or archive")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| UnknownMode(text.into()))
    }
}
