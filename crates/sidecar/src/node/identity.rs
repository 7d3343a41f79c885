//! Who the node is among its peers.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chain::address::Address;
use serde::Deserialize;

use super::{files, home};

/// Why the node's id is not known.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// There is no key yet.
    #[error("there is no node_key.json: generate-identity makes it")]
    Missing,
    /// It cannot be read.
    #[error("failed to read node_key.json: {0}")]
    Unread(std::io::Error),
    /// The file is not what it should be.
    #[error("failed to parse node_key.json")]
    Unparsed,
    /// The key is of another kind.
    #[error("invalid Ed25519 key in node_key.json")]
    NoKey,
}

#[derive(Deserialize)]
struct KeyFile {
    priv_key: Key,
}

#[derive(Deserialize)]
struct Key {
    value: String,
}

/// The id is made from the public half of the key: SHA-256, the first twenty bytes.
pub(super) fn read(home: &Path) -> Result<String, IdentityError> {
    let text = files::read_bytes(&home.join(home::NODE_KEY)).map_err(IdentityError::Unread)?;
    let text = text.ok_or(IdentityError::Missing)?;
    let file: KeyFile = serde_json::from_slice(&text).map_err(|_| IdentityError::Unparsed)?;
    let key = STANDARD.decode(&file.priv_key.value).map_err(|_| IdentityError::NoKey)?;
    let public = key.get(32..).and_then(|public| public.try_into().ok()).ok_or(IdentityError::NoKey)?;
    Ok(Address::of_ed25519(public).to_hex())
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
    fn the_id_is_that_of_the_public_half() {
        let key = [[7_u8; 32], [0; 32]].concat();
        let file = format!(
            r#"{{"id": "ignored", "priv_key": {{"type": "tendermint/PrivKeyEd25519", "value": "{}"}}}}"#,
            STANDARD.encode(key)
        );
        // SHA-256 of 32 zero bytes begins with these.
        assert_eq!(id(&file).as_deref(), Ok("66687aadf862bd776c8fc18b8e9f8e2008971485"));
    }

    #[test]
    fn what_is_no_key_is_told_apart() {
        assert_eq!(id("{"), Err("failed to parse node_key.json".into()));
        let short = format!(r#"{{"priv_key": {{"value": "{}"}}}}"#, STANDARD.encode([1; 32]));
        assert_eq!(id(&short), Err("invalid Ed25519 key in node_key.json".into()));
        let missing = read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert_eq!(missing, "there is no node_key.json: generate-identity makes it");
    }
}
