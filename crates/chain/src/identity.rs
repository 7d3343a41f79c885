//! Ed25519 node key and consensus key of a node, and their files.

use std::fmt;

use ed25519_dalek::SigningKey;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::address::{Address, Prefix};
use crate::secret::Secret;
use crate::text::{base64, from_base64};

const PRIVATE: &str = "tendermint/PrivKeyEd25519";
pub(crate) const PUBLIC: &str = "tendermint/PubKeyEd25519";

/// `data/priv_validator_state.json` of a validator that has never signed. Never write it on a validator that has signed: it
/// resets double-sign protection.
pub const INITIAL_VALIDATOR_STATE: &str = "{\n  \"height\": \"0\",\n  \"round\": 0,\n  \"step\": 0\n}";

/// Error returned for an invalid key file. Messages never contain file content, because the file holds a private key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// Malformed.
    #[error("{0} is not a valid key file; restore or remove it")]
    Syntax(&'static str),
    /// Not an Ed25519 key.
    #[error("{0}: unsupported key type, expected {PRIVATE}")]
    Type(&'static str),
    /// Private and public key do not match.
    #[error("{0}: private key does not match the public key; restore the file")]
    Mismatch(&'static str),
}

/// Ed25519 key pair.
struct Key(SigningKey);

impl Key {
    fn public(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }

    fn address(&self) -> Address {
        Address::from_ed25519(&self.public())
    }

    /// Encodes seed and public key as base64.
    fn private_base64(&self) -> Zeroizing<String> {
        let pair = Zeroizing::new(self.0.to_keypair_bytes());
        Zeroizing::new(base64(&*pair))
    }

    fn from_stored(file: &'static str, stored: &TypedKey) -> Result<Self, KeyFileError> {
        if stored.kind != PRIVATE {
            return Err(KeyFileError::Type(file));
        }
        let bytes = from_base64(&stored.value).map(Zeroizing::new).ok_or(KeyFileError::Syntax(file))?;
        let pair: &[u8; 64] = bytes.as_slice().try_into().map_err(|_| KeyFileError::Syntax(file))?;
        SigningKey::from_keypair_bytes(pair).map(Self).map_err(|_| KeyFileError::Mismatch(file))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypedKey {
    #[serde(rename = "type")]
    kind: String,
    value: Zeroizing<String>,
}

#[derive(Deserialize)]
struct NodeKeyFile {
    priv_key: TypedKey,
}

#[derive(Deserialize)]
struct ConsensusKeyFile {
    pub_key: TypedKey,
    priv_key: TypedKey,
}

/// Key that authenticates a node to its peers.
pub struct NodeKey(Key);

impl NodeKey {
    const FILE: &str = "node_key.json";

    /// Creates a key from 32 random bytes.
    #[must_use]
    pub fn from_seed(seed: &Zeroizing<[u8; 32]>) -> Self {
        Self(Key(SigningKey::from_bytes(seed)))
    }

    /// Parses `config/node_key.json`. The `id` field is ignored: seid derives the ID from the key.
    pub fn parse(file: &[u8]) -> Result<Self, KeyFileError> {
        let stored: NodeKeyFile =
            serde_json::from_slice(file).map_err(|_| KeyFileError::Syntax(Self::FILE))?;
        Key::from_stored(Self::FILE, &stored.priv_key).map(Self)
    }

    /// Returns the node ID.
    #[must_use]
    pub fn id(&self) -> String {
        self.0.address().to_hex()
    }

    /// Renders `config/node_key.json`.
    #[must_use]
    pub fn render_file(&self) -> Secret {
        Secret::new(concat(&[
            "{\"id\":\"",
            &self.id(),
            "\",\"priv_key\":{\"type\":\"",
            PRIVATE,
            "\",\"value\":\"",
            &self.0.private_base64(),
            "\"}}",
        ]))
    }
}

/// Key that a validator signs blocks with.
pub struct ConsensusKey(Key);

impl ConsensusKey {
    const FILE: &str = "priv_validator_key.json";

    /// Creates a key from 32 random bytes.
    #[must_use]
    pub fn from_seed(seed: &Zeroizing<[u8; 32]>) -> Self {
        Self(Key(SigningKey::from_bytes(seed)))
    }

    /// Parses `config/priv_validator_key.json`.
    pub fn parse(file: &[u8]) -> Result<Self, KeyFileError> {
        let stored: ConsensusKeyFile =
            serde_json::from_slice(file).map_err(|_| KeyFileError::Syntax(Self::FILE))?;
        let key = Key::from_stored(Self::FILE, &stored.priv_key)?;
        if stored.pub_key.kind != PUBLIC || *stored.pub_key.value != base64(&key.public()) {
            return Err(KeyFileError::Mismatch(Self::FILE));
        }
        Ok(Self(key))
    }

    /// Returns the public key.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        self.0.public()
    }

    /// Returns the `seivalcons` address.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.address().to_bech32(Prefix::Consensus)
    }

    /// Renders `config/priv_validator_key.json`.
    #[must_use]
    pub fn file(&self) -> Secret {
        Secret::new(concat(&[
            "{\n  \"address\": \"",
            &self.0.address().to_upper_hex(),
            "\",\n  \"pub_key\": {\n    \"type\": \"",
            PUBLIC,
            "\",\n    \"value\": \"",
            &base64(&self.public()),
            "\"\n  },\n  \"priv_key\": {\n    \"type\": \"",
            PRIVATE,
            "\",\n    \"value\": \"",
            &self.0.private_base64(),
            "\"\n  }\n}",
        ]))
    }
}

/// Concatenates `parts`. Allocates the final size up front, because a growing string leaves copies that are not zeroized.
fn concat(parts: &[&str]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(parts.iter().map(|part| part.len()).sum()));
    parts.iter().for_each(|part| text.push_str(part));
    text
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.id())
    }
}

impl fmt::Debug for ConsensusKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConsensusKey({})", self.address())
    }
}

/// Renders the identity document that a node uploads during a genesis ceremony. It contains no private key.
#[must_use]
pub fn render_public_identity(node_id: &str) -> String {
    crate::json::Json::object([(
        "node_key",
        crate::json::Json::object([("id", crate::json::Json::text(node_id))]),
    )])
    .compact()
}
