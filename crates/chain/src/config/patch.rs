//! Raw edits of single keys in a file: `config-patch`.

use serde_json::{Map, Value as Json};
use toml_edit::{Array, InlineTable, Item, Table, TableLike, Value as Toml};

use super::document::{Document, FileError, find_key, put};
use super::network_rules::{PEERS_IN_CONFIG_TOML, invalid_peer};
use super::table::Kind;
use super::value::Value;

/// Files that may be patched. Other names are rejected, because they could traverse out of the config directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patchable {
    /// Consensus and p2p settings.
    Config,
    /// Application settings.
    App,
    /// Settings of seid's client commands.
    Client,
}

impl Patchable {
    /// Every patchable file.
    pub const ALL: [Self; 3] = [Self::Config, Self::App, Self::Client];

    /// Returns the file name in the `config` directory.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Config => "config.toml",
            Self::App => "app.toml",
            Self::Client => "client.toml",
        }
    }
}

/// Error returned when a file cannot be patched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// Not a patchable file.
    #[error("file {0:?} cannot be patched; expected config.toml, app.toml or client.toml")]
    Name(String),
    /// The file cannot be parsed.
    #[error(transparent)]
    File(#[from] FileError),
    /// A value that TOML cannot represent.
    #[error("{file}: {key} {why}")]
    Value {
        /// File name.
        file: &'static str,
        /// Key.
        key: String,
        /// Reason.
        why: &'static str,
    },
    /// A peer that is not an address of a node.
    #[error("{0}: invalid peer {1:?}: expected <node id>@<host>:<port>, with 40 hexadecimal digits")]
    Peer(&'static str, String),
}

impl std::str::FromStr for Patchable {
    type Err = PatchError;

    fn from_str(name: &str) -> Result<Self, PatchError> {
        Self::ALL.into_iter().find(|file| file.name() == name).ok_or_else(|| PatchError::Name(name.into()))
    }
}

/// Merges a tree of values into a file: null removes a key, objects are merged, other values replace.
pub fn patch(file: Patchable, text: &str, tree: &Map<String, Json>) -> Result<String, PatchError> {
    let mut document = Document::parse_named(file.name(), text)?;
    let read_peers = |document: &Document| PEERS_IN_CONFIG_TOML.map(|path| document.read(path, Kind::Text));
    let before = read_peers(&document);
    merge(document.root(), tree, "", file.name())?;
    if file == Patchable::Config {
        for ((path, before), after) in PEERS_IN_CONFIG_TOML.into_iter().zip(before).zip(read_peers(&document))
        {
            // A patch of another key must not fail because of peers that were invalid before.
            if before != after {
                check_peers(path, after?)?;
            }
        }
    }
    Ok(document.text())
}

fn check_peers(path: &'static str, peers: Option<Value>) -> Result<(), PatchError> {
    let Some(Value::Text(peers)) = peers else { return Ok(()) };
    match invalid_peer(&peers) {
        Some(peer) => Err(PatchError::Peer(path, peer.into())),
        None => Ok(()),
    }
}

/// Settings besides the chain ID that seid's client commands need; without a keyring none of them runs.
const CLIENT_DEFAULTS: [(&str, &str); 4] = [
    ("keyring-backend", "os"),
    ("output", "text"),
    ("node", "tcp://localhost:26657"),
    ("broadcast-mode", "sync"),
];

/// Sets the chain ID in `client.toml`, because seid does not start if it differs from the genesis file. Adds other required
/// settings that are missing.
pub fn set_client_chain_id(text: &str, chain_id: &str) -> Result<String, PatchError> {
    let mut document = Document::parse_named(Patchable::Client.name(), text)?;
    document.write("chain-id", &super::value::quote(chain_id), None)?;
    for (key, value) in CLIENT_DEFAULTS {
        if !document.has(key) {
            document.write(key, &super::value::quote(value), None)?;
        }
    }
    Ok(document.text())
}

fn merge(
    table: &mut dyn TableLike,
    tree: &Map<String, Json>,
    parent: &str,
    file: &'static str,
) -> Result<(), PatchError> {
    for (name, json) in tree {
        let key = if parent.is_empty() { name.clone() } else { format!("{parent}.{name}") };
        match json {
            Json::Null => {
                if let Some(existing) = find_key(table, name) {
                    table.remove(&existing);
                }
            }
            Json::Object(tree) => {
                let table_key = find_key(table, name).unwrap_or_else(|| name.clone());
                if !table.get(&table_key).is_some_and(Item::is_table_like) {
                    let mut new = Table::new();
                    new.decor_mut().set_prefix("\n");
                    table.insert(&table_key, Item::Table(new));
                }
                if let Some(inner) = table.get_mut(&table_key).and_then(Item::as_table_like_mut) {
                    merge(inner, tree, &key, file)?;
                }
            }
            json => {
                let new = to_toml(json).map_err(|why| PatchError::Value { file, key, why })?;
                put(table, name, new);
            }
        }
    }
    Ok(())
}

/// Converts a JSON value to TOML. Integers stay integers: seid accepts 7000.0, other readers do not.
fn to_toml(json: &Json) -> Result<Toml, &'static str> {
    Ok(match json {
        Json::Null => return Err("has a null list element, which TOML cannot represent; remove it"),
        Json::Bool(flag) => (*flag).into(),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, _) if number.is_u64() => {
                return Err("is above 9223372036854775807, the TOML integer maximum");
            }
            (None, Some(real)) => real.into(),
            (None, None) => return Err("is a number that TOML cannot represent"),
        },
        Json::String(text) => {
            super::value::quote(text).parse().map_err(|_| "is a string that TOML cannot represent")?
        }
        Json::Array(entries) => {
            let mut array = Array::new();
            for entry in entries {
                array.push(to_toml(entry)?);
            }
            array.into()
        }
        Json::Object(tree) => {
            let mut table = InlineTable::new();
            for (name, json) in tree {
                if !json.is_null() {
                    table.insert(name, to_toml(json)?);
                }
            }
            table.into()
        }
    })
}
