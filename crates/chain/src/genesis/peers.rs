//! Peers of a new chain: who they are is known once everybody has an identity.

use crate::json::Json;

/// Why peers cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeersError {
    /// The document of a node's identity is none.
    #[error("identity of {0} holds no node id of 40 hexadecimal digits; upload it again")]
    Identity(String),
    /// The document of peers is none.
    #[error("peers.json is no list of <id>@<host>:<port>; assemble the genesis again")]
    Peers,
}

/// The name of a node among peers, from the document that it uploaded. Its key is not looked for.
pub fn node_id_of(node: &str, identity: &[u8]) -> Result<String, PeersError> {
    let json = Json::parse(identity).ok();
    let id = json.as_ref().and_then(|json| json.at(&["node_key", "id"])).and_then(Json::as_text);
    id.filter(|id| is_node_id(id)).map(str::to_owned).ok_or_else(|| PeersError::Identity(node.into()))
}

/// `peers.json`: every node of a namespace by its stable name.
#[must_use]
pub fn peers_document(nodes: &[(&str, String)], namespace: &str) -> String {
    let peer = |(node, id): &(&str, String)| {
        let port = api::names::port::P2P;
        Json::Text(format!("{id}@{node}-0.{node}.{namespace}.svc.cluster.local:{port}"))
    };
    Json::Array(nodes.iter().map(peer).collect()).compact()
}

/// The peers in `peers.json` that are not the node itself: it must not dial itself.
pub fn others(peers: &[u8], own_id: &str) -> Result<Vec<String>, PeersError> {
    let json = Json::parse(peers).map_err(|_| PeersError::Peers)?;
    let entries = json.as_array().ok_or(PeersError::Peers)?;
    let mut others = Vec::new();
    for entry in entries {
        let entry = entry.as_text().ok_or(PeersError::Peers)?;
        let (id, address) = entry.split_once('@').ok_or(PeersError::Peers)?;
        // A comma would make two of one: the file holds them as one text.
        if !is_node_id(id) || address.is_empty() || address.contains([',', '@', '"', '\n']) {
            return Err(PeersError::Peers);
        }
        if id != own_id {
            others.push(entry.to_owned());
        }
    }
    Ok(others)
}

/// Whether a text is the name of a node among peers.
pub(crate) fn is_node_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
