//! The node ID, derived from `node_key.json`.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chain::address::Address;
use serde::Deserialize;

use super::{files, home};

/// Why the node ID could not be determined.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The key does not exist yet.
    #[error("node_key.json not found: run generate-identity first")]
    Missing,
    /// The file cannot be read.
    #[error("failed to read node_key.json: {0}")]
    Read(std::io::Error),
    /// The file is malformed.
    #[error("failed to parse node_key.json")]
    Parse,
    /// The key is not an Ed25519 key.
    #[error("invalid Ed25519 key in node_key.json")]
    InvalidKey,
}

#[derive(Deserialize)]
struct KeyFile {
    priv_key: Key,
}

#[derive(Deserialize)]
struct Key {
    value: String,
}

/// Reads the key and returns the node ID: the first 20 bytes of the SHA-256 of the public key, in hexadecimal.
pub(super) fn read(home: &Path) -> Result<String, IdentityError> {
    let text = files::read_bytes(&home.join(home::NODE_KEY)).map_err(IdentityError::Read)?;
    let text = text.ok_or(IdentityError::Missing)?;
    let file: KeyFile = serde_json::from_slice(&text).map_err(|_| IdentityError::Parse)?;
    let key = STANDARD.decode(&file.priv_key.value).map_err(|_| IdentityError::InvalidKey)?;
    let public = key.get(32..).and_then(|public| public.try_into().ok()).ok_or(IdentityError::InvalidKey)?;
    Ok(Address::from_ed25519(public).to_hex())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(file: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("config")).unwrap();
        std::fs::write(dir.path().join(home::NODE_KEY), file).unwrap();
        read(dir.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn node_id_is_hash_of_public_key() {
        let key = [[7_u8; 32], [0; 32]].concat();
        let file = format!(
            r#"{{"id": "ignored", "priv_key": {{"type": "tendermint/PrivKeyEd25519", "value": "{}"}}}}"#,
            STANDARD.encode(key)
        );
        // The first 20 bytes of the SHA-256 of 32 zero bytes.
        assert_eq!(id(&file).as_deref(), Ok("66687aadf862bd776c8fc18b8e9f8e2008971485"));
    }

    #[test]
    fn malformed_missing_and_invalid_keys_are_distinguished() {
        assert_eq!(id("{"), Err("failed to parse node_key.json".into()));
        let short = format!(r#"{{"priv_key": {{"value": "{}"}}}}"#, STANDARD.encode([1; 32]));
        assert_eq!(id(&short), Err("invalid Ed25519 key in node_key.json".into()));
        let missing = read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert_eq!(missing, "node_key.json not found: run generate-identity first");
    }
}
