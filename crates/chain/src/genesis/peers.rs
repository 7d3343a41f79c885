//! Peers of a new chain, known once every node has uploaded its identity.

use crate::config::is_peer_address;
use crate::json::Json;

/// Error returned for invalid identity or peer documents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeersError {
    /// Invalid identity document.
    #[error("identity of {0} has no valid node ID (40 hexadecimal digits); upload it again")]
    Identity(String),
    /// Invalid peers document.
    #[error("invalid peers.json: expected a list of <id>@<host>:<port>; assemble the genesis again")]
    Peers,
}

/// Returns the node ID in an uploaded identity document. A private key in it is ignored.
pub fn parse_node_id(node: &str, identity: &[u8]) -> Result<String, PeersError> {
    let json = Json::parse(identity).ok();
    let id = json.as_ref().and_then(|json| json.at(&["node_key", "id"])).and_then(Json::as_text);
    id.filter(|id| is_node_id(id)).map(str::to_owned).ok_or_else(|| PeersError::Identity(node.into()))
}

/// Renders `peers.json`: every node with its stable DNS name.
#[must_use]
pub fn render_peers(nodes: &[(&str, String)], namespace: &str) -> String {
    let peer = |(node, id): &(&str, String)| {
        let port = api::names::port::P2P;
        Json::Text(format!("{id}@{node}-0.{node}.{namespace}.svc.cluster.local:{port}"))
    };
    Json::Array(nodes.iter().map(peer).collect()).compact()
}

/// Returns the peers in `peers.json` except the node itself, which must not dial itself.
pub fn peers_except(peers: &[u8], own_id: &str) -> Result<Vec<String>, PeersError> {
    let json = Json::parse(peers).map_err(|_| PeersError::Peers)?;
    let entries = json.as_array().ok_or(PeersError::Peers)?;
    let mut others = Vec::new();
    for entry in entries {
        let entry = entry.as_text().ok_or(PeersError::Peers)?;
        let (id, _) = entry.split_once('@').ok_or(PeersError::Peers)?;
        if !is_node_id(id) || !is_peer_address(entry) {
            return Err(PeersError::Peers);
        }
        if id != own_id {
            others.push(entry.to_owned());
        }
    }
    Ok(others)
}

/// Reports whether `text` is a node ID.
pub(crate) fn is_node_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
