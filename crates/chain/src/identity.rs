//! Who a node is to its peers, and who signs its blocks: two Ed25519 keys and the files that hold them.

use std::fmt;

use ed25519_dalek::SigningKey;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::address::{Address, Prefix};
use crate::secret::Secret;
use crate::text::{base64, from_base64};

const PRIVATE: &str = "tendermint/PrivKeyEd25519";
pub(crate) const PUBLIC: &str = "tendermint/PubKeyEd25519";

/// `data/priv_validator_state.json` of a validator that has never signed. On one that has, it must not be written: the
/// node would sign a height twice.
pub const UNUSED_VALIDATOR_STATE: &str = "{\n  \"height\": \"0\",\n  \"round\": 0,\n  \"step\": 0\n}";

/// Why a file holds no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// It is not written as one. Nothing of it is told: it holds a private key.
    #[error("{0} is not a key file; restore it or remove it")]
    Syntax(&'static str),
    /// Its key is not Ed25519.
    #[error("{0} holds a key of another type than {PRIVATE}")]
    Type(&'static str),
    /// Its parts do not belong together.
    #[error("{0} holds a private key that does not fit its public one; restore it")]
    Mismatch(&'static str),
}

/// An Ed25519 key.
struct Key(SigningKey);

impl Key {
    fn public(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }

    fn address(&self) -> Address {
        Address::of_ed25519(&self.public())
    }

    /// Seed and public key in base 64.
    fn private_text(&self) -> Zeroizing<String> {
        let pair = Zeroizing::new(self.0.to_keypair_bytes());
        Zeroizing::new(base64(&*pair))
    }

    fn read(file: &'static str, stored: &Typed) -> Result<Self, KeyFileError> {
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
struct Typed {
    #[serde(rename = "type")]
    kind: String,
    value: Zeroizing<String>,
}

#[derive(Deserialize)]
struct NodeKeyFile {
    priv_key: Typed,
}

#[derive(Deserialize)]
struct ConsensusKeyFile {
    pub_key: Typed,
    priv_key: Typed,
}

/// The key by which peers know a node.
pub struct NodeKey(Key);

impl NodeKey {
    const FILE: &str = "node_key.json";

    /// The key of 32 random bytes.
    #[must_use]
    pub fn from_seed(seed: &Zeroizing<[u8; 32]>) -> Self {
        Self(Key(SigningKey::from_bytes(seed)))
    }

    /// Reads `config/node_key.json`. The name in it is not looked at: seid computes it anew.
    pub fn parse(file: &[u8]) -> Result<Self, KeyFileError> {
        let stored: NodeKeyFile =
            serde_json::from_slice(file).map_err(|_| KeyFileError::Syntax(Self::FILE))?;
        Key::read(Self::FILE, &stored.priv_key).map(Self)
    }

    /// The node's name among peers.
    #[must_use]
    pub fn id(&self) -> String {
        self.0.address().to_hex()
    }

    /// `config/node_key.json`.
    #[must_use]
    pub fn file(&self) -> Secret {
        Secret::new(text(&[
            "{\"id\":\"",
            &self.id(),
            "\",\"priv_key\":{\"type\":\"",
            PRIVATE,
            "\",\"value\":\"",
            &self.0.private_text(),
            "\"}}",
        ]))
    }
}

/// The key that a validator signs blocks with.
pub struct ConsensusKey(Key);

impl ConsensusKey {
    const FILE: &str = "priv_validator_key.json";

    /// The key of 32 random bytes.
    #[must_use]
    pub fn from_seed(seed: &Zeroizing<[u8; 32]>) -> Self {
        Self(Key(SigningKey::from_bytes(seed)))
    }

    /// Reads `config/priv_validator_key.json`.
    pub fn parse(file: &[u8]) -> Result<Self, KeyFileError> {
        let stored: ConsensusKeyFile =
            serde_json::from_slice(file).map_err(|_| KeyFileError::Syntax(Self::FILE))?;
        let key = Key::read(Self::FILE, &stored.priv_key)?;
        if stored.pub_key.kind != PUBLIC || *stored.pub_key.value != base64(&key.public()) {
            return Err(KeyFileError::Mismatch(Self::FILE));
        }
        Ok(Self(key))
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        self.0.public()
    }

    /// The address, as text.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.address().to_text(Prefix::Consensus)
    }

    /// `config/priv_validator_key.json`.
    #[must_use]
    pub fn file(&self) -> Secret {
        Secret::new(text(&[
            "{\n  \"address\": \"",
            &self.0.address().to_upper_hex(),
            "\",\n  \"pub_key\": {\n    \"type\": \"",
            PUBLIC,
            "\",\n    \"value\": \"",
            &base64(&self.public()),
            "\"\n  },\n  \"priv_key\": {\n    \"type\": \"",
            PRIVATE,
            "\",\n    \"value\": \"",
            &self.0.private_text(),
            "\"\n  }\n}",
        ]))
    }
}

/// The parts as one text. It has its final size from the start: a text that grows leaves copies behind that are not wiped.
fn text(parts: &[&str]) -> Zeroizing<String> {
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

/// What others may know of a node: the document that is uploaded in a ceremony. The private key stays.
#[must_use]
pub fn public_identity(node_id: &str) -> String {
    crate::json::Json::object([(
        "node_key",
        crate::json::Json::object([("id", crate::json::Json::text(node_id))]),
    )])
    .compact()
}
