//! Whether the node signs blocks. Every node has a consensus key, because `seid init` generates one; only a validator uses it. A key
//! from a Secret is mounted in the container of seid only, so the sidecar cannot tell which key it is.

use std::fmt;
use std::path::Path;

use serde::Deserialize;

use super::{config, files, home};

/// Why the node is considered to sign blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningEvidence {
    /// seid runs as a validator.
    ValidatorMode,
    /// The key has signed.
    Signed(String),
    /// A file cannot be read.
    Unknown(String),
}

impl fmt::Display for SigningEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ValidatorMode => f.write_str("mode is validator in config.toml"),
            Self::Signed(height) => write!(f, "its key has signed at height {height}"),
            Self::Unknown(error) => write!(f, "this cannot be excluded: {error}"),
        }
    }
}

/// The signing state. Heights are JSON strings.
#[derive(Deserialize)]
struct SigningState {
    height: String,
}

/// Returns why the node is considered to sign blocks, or `None`. Unreadable files count as evidence.
#[must_use]
pub fn find_evidence(home: &Path) -> Option<SigningEvidence> {
    match config::seid_mode(home) {
        Ok(mode) if mode.as_deref() == Some(chain::config::Mode::Validator.name()) => {
            return Some(SigningEvidence::ValidatorMode);
        }
        Ok(_) => {}
        Err(error) => return Some(SigningEvidence::Unknown(error.to_string())),
    }
    let unknown = |error: &dyn fmt::Display| {
        Some(SigningEvidence::Unknown(format!("{}: {error}", home::VALIDATOR_STATE)))
    };
    match files::read(&home.join(home::VALIDATOR_STATE)) {
        Ok(None) => None,
        Ok(Some(text)) => match serde_json::from_str::<SigningState>(&text) {
            Ok(state) if state.height == "0" => None,
            Ok(state) if state.height.bytes().all(|digit| digit.is_ascii_digit()) => {
                Some(SigningEvidence::Signed(state.height))
            }
            Ok(_) => unknown(&"malformed height"),
            Err(error) => unknown(&error),
        },
        Err(error) => unknown(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_node_with_generated_key_does_not_sign() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        std::fs::create_dir_all(home.join("config")).unwrap();
        std::fs::create_dir_all(home.join("data")).unwrap();
        assert_eq!(find_evidence(home), None, "an empty home");
        let write = |file: &str, text: &str| std::fs::write(home.join(file), text).unwrap();
        write(home::CONFIG, "mode = \"full\"\n");
        write(home::CONSENSUS_KEY, "{}");
        write(home::VALIDATOR_STATE, chain::identity::INITIAL_VALIDATOR_STATE);
        assert_eq!(find_evidence(home), None);
        write(home::VALIDATOR_STATE, r#"{"height": "12", "round": 0, "step": 3}"#);
        assert_eq!(find_evidence(home), Some(SigningEvidence::Signed("12".into())), "it was a validator");
        write(home::VALIDATOR_STATE, "{");
        assert!(matches!(find_evidence(home), Some(SigningEvidence::Unknown(_))));
        write(home::CONFIG, "mode = \"validator\"\n");
        assert_eq!(find_evidence(home), Some(SigningEvidence::ValidatorMode));
        write(home::CONFIG, "mode = \n");
        assert!(matches!(find_evidence(home), Some(SigningEvidence::Unknown(_))));
    }
}
