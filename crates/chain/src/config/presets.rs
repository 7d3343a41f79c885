//! Groups of settings that tasks and plans apply together.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::current::MODE_IN_CONFIG_TOML;
use super::document::{Document, FileError};
use super::patch::{PatchError, Patchable, patch};
use super::table::{File, Kind};
use super::value::Value;

/// Returns the settings of a node that creates state-sync snapshots and keeps `keep_recent` of them.
#[must_use]
pub fn snapshot_generation(keep_recent: u32) -> BTreeMap<String, String> {
    let keep_recent = keep_recent.to_string();
    [
        ("storage.snapshot_interval", "2000"),
        ("storage.snapshot_keep_recent", keep_recent.as_str()),
        ("storage.pruning_keep_recent", "50000"),
        ("storage.pruning_keep_every", "0"),
        ("chain.min_retain_blocks", "50000"),
        ("network.p2p.max_connections", "500"),
        ("network.p2p.send_rate", "20971520"),
        ("network.p2p.recv_rate", "20971520"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// Replaces the persistent peers in `config.toml`, each given as `id@host:port`.
pub fn set_persistent_peers(config_toml: &str, peers: &[String]) -> Result<String, PatchError> {
    let tree = json!({ "p2p": { "persistent-peers": peers.join(",") } });
    let empty = Map::new();
    patch(Patchable::Config, config_toml, tree.as_object().map_or(&empty, |tree: &Map<String, Json>| tree))
}

/// Returns the comma-separated persistent peers in `config.toml`; empty if there are none.
pub fn persistent_peers(config_toml: &str) -> Result<String, FileError> {
    match Document::parse(File::Config, config_toml)?.read("p2p.persistent-peers", Kind::Text)? {
        Some(Value::Text(peers)) => Ok(peers),
        _ => Ok(String::new()),
    }
}

/// Returns the mode that seid runs in, if `config.toml` sets it. Only a validator signs blocks.
pub fn seid_mode(config_toml: &str) -> Result<Option<String>, FileError> {
    Ok(match Document::parse(File::Config, config_toml)?.read(MODE_IN_CONFIG_TOML, Kind::Text)? {
        Some(Value::Text(mode)) => Some(mode),
        _ => None,
    })
}
