//! Rejects peer addresses, peer IDs and listen addresses that make seid exit at startup. Each was verified with seid.

use super::finding::Findings;
use super::settings::Settings;
use crate::genesis::is_node_id;

const PEERS: [&str; 3] =
    ["network.p2p.persistent_peers", "network.p2p.bootstrap_peers", "network.p2p.blocksync_peers"];
/// The same settings in `config.toml`.
pub(super) const PEERS_IN_CONFIG_TOML: [&str; 3] =
    ["p2p.persistent-peers", "p2p.bootstrap-peers", "p2p.blocksync-peers"];
const PEER_IDS: [&str; 2] = ["network.p2p.private_peer_ids", "network.p2p.unconditional_peer_ids"];
const DATABASES: [&str; 3] = ["goleveldb", "goleveldb-bloom", "memdb"];

pub(super) fn check(settings: &Settings, out: &mut Findings) {
    for key in PEERS {
        if let Some(peer) = invalid_peer(settings.text(key)) {
            out.error(
                key,
                format!("invalid peer {peer:?}, seid would not start; expected <node id>@<host>:<port>"),
            );
        }
    }
    for key in PEER_IDS {
        if let Some(id) = split(settings.text(key)).find(|id| !is_node_id(id)) {
            out.error(
                key,
                format!("invalid node ID {id:?}, seid would not start; expected 40 hexadecimal digits"),
            );
        }
    }
    let address = settings.text("network.p2p.listen_address");
    if !has_port(address) {
        out.error(
            "network.p2p.listen_address",
            format!("{address:?} has no port, seid would not start; use tcp://0.0.0.0:26656"),
        );
    }
    let address = settings.text("priv_validator.listen_addr");
    if !address.is_empty() && !has_port(address) && !address.starts_with("unix://") {
        out.error(
            "priv_validator.listen_addr",
            format!(
                "{address:?} has no port, seid would not start; use tcp://127.0.0.1:26659, or leave it empty"
            ),
        );
    }
    let database = settings.text("storage.db_backend");
    if !DATABASES.contains(&database) {
        out.error(
            "storage.db_backend",
            format!("unknown backend {database:?}, seid would not start; use {}", DATABASES.join(", ")),
        );
    }
}

/// Splits a comma-separated setting like seid: trims spaces and drops empty entries.
fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(|entry| entry.trim_matches(' ')).filter(|entry| !entry.is_empty())
}

/// Returns the first entry of a list of peers, as seid reads it, that is not a peer address.
pub(super) fn invalid_peer(peers: &str) -> Option<&str> {
    split(peers).find(|peer| !is_peer_address(peer))
}

/// Reports whether seid accepts a peer address: `<node id>@<host>:<port>`, where the port may be missing. The host is a name or an
/// address, so that no entry can contain another one.
#[must_use]
pub fn is_peer_address(peer: &str) -> bool {
    let peer = peer.strip_prefix("mconn://").or_else(|| peer.strip_prefix("tcp://")).unwrap_or(peer);
    let Some((id, address)) = peer.split_once('@') else { return false };
    // seid falls back to the default port.
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c));
    is_node_id(&id.to_ascii_lowercase()) && is_host && port.parse::<u16>().is_ok()
}

fn has_port(address: &str) -> bool {
    let address = address.split_once("://").map_or(address, |(_, address)| address);
    address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}
