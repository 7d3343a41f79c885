//! Changes of single keys that somebody spells as the file does: `config-patch`.

use serde_json::{Map, Value as Json};
use toml_edit::{Array, InlineTable, Item, Table, TableLike, Value as Toml};

use super::document::{Document, FileError, put, spelled};

/// The files that may be patched. A name that is not among them could lead out of the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patchable {
    /// Settings of consensus and of peers.
    Config,
    /// Settings of the application.
    App,
    /// Settings of seid's commands.
    Client,
}

impl Patchable {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Config, Self::App, Self::Client];

    /// Its name in the folder `config`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Config => "config.toml",
            Self::App => "app.toml",
            Self::Client => "client.toml",
        }
    }
}

/// Why a file cannot be patched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The name is that of no file that may be patched.
    #[error("file {0:?} cannot be patched; use config.toml, app.toml or client.toml")]
    Name(String),
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A value that TOML cannot hold.
    #[error("{file}: {key} {why}")]
    Value {
        /// The file.
        file: &'static str,
        /// The key.
        key: String,
        /// What is wrong.
        why: &'static str,
    },
}

impl std::str::FromStr for Patchable {
    type Err = PatchError;

    fn from_str(name: &str) -> Result<Self, PatchError> {
        Self::ALL.into_iter().find(|file| file.name() == name).ok_or_else(|| PatchError::Name(name.into()))
    }
}

/// A file with a tree of values merged into it: null removes a key, a table is merged, everything else replaces.
pub fn patch(file: Patchable, text: &str, tree: &Map<String, Json>) -> Result<String, PatchError> {
    let mut document = Document::parse_named(file.name(), text)?;
    merge(document.root(), tree, "", file.name())?;
    Ok(document.text())
}

/// What seid's commands need beside the name of the chain; without a keyring not one of them runs.
const CLIENT: [(&str, &str); 4] = [
    ("keyring-backend", "os"),
    ("output", "text"),
    ("node", "tcp://localhost:26657"),
    ("broadcast-mode", "sync"),
];

/// `client.toml` with the name of a chain: seid does not start when it differs from that in the genesis file. What else
/// it needs is added where it is missing.
pub fn client_with_chain(text: &str, chain_id: &str) -> Result<String, PatchError> {
    let mut document = Document::parse_named(Patchable::Client.name(), text)?;
    document.write("chain-id", &super::value::quote(chain_id), None)?;
    for (key, value) in CLIENT {
        if !document.has(key) {
            document.write(key, &super::value::quote(value), None)?;
        }
    }
    Ok(document.text())
}

fn merge(
    table: &mut dyn TableLike,
    tree: &Map<String, Json>,
    above: &str,
    file: &'static str,
) -> Result<(), PatchError> {
    for (name, json) in tree {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match json {
            Json::Null => {
                if let Some(spelled) = spelled(table, name) {
                    table.remove(&spelled);
                }
            }
            Json::Object(tree) => {
                let spelled = spelled(table, name).unwrap_or_else(|| name.clone());
                if !table.get(&spelled).is_some_and(Item::is_table_like) {
                    let mut new = Table::new();
                    new.decor_mut().set_prefix("\n");
                    table.insert(&spelled, Item::Table(new));
                }
                if let Some(inner) = table.get_mut(&spelled).and_then(Item::as_table_like_mut) {
                    merge(inner, tree, &key, file)?;
                }
            }
            json => {
                let new = value(json).map_err(|why| PatchError::Value { file, key, why })?;
                put(table, name, new);
            }
        }
    }
    Ok(())
}

/// A value of JSON as one of TOML. A whole number stays one: seid takes 7000.0, other readers do not.
fn value(json: &Json) -> Result<Toml, &'static str> {
    Ok(match json {
        Json::Null => return Err("is null within a list, which TOML does not have; remove it"),
        Json::Bool(flag) => (*flag).into(),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, _) if number.is_u64() => {
                return Err("is above 9223372036854775807, which TOML cannot hold");
            }
            (None, Some(real)) => real.into(),
            (None, None) => return Err("is no number that TOML can hold"),
        },
        Json::String(text) => {
            super::value::quote(text).parse().map_err(|_| "is no text that TOML can hold")?
        }
        Json::Array(entries) => {
            let mut array = Array::new();
            for entry in entries {
                array.push(value(entry)?);
            }
            array.into()
        }
        Json::Object(tree) => {
            let mut table = InlineTable::new();
            for (name, json) in tree {
                if !json.is_null() {
                    table.insert(name, value(json)?);
                }
            }
            table.into()
        }
    })
}
