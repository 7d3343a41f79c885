//! Peers of a new chain.

use chain::genesis::{PeersError, parse_node_id, peers_except, render_peers};
use chain::identity::render_public_identity;

use crate::ceremony::node_key;

#[test]
fn peers_exclude_own_node() {
    let (a, b) = (node_key(1).id(), node_key(2).id());
    let document = render_peers(&[("val-0", a.clone()), ("val-1", b.clone())], "chains");
    assert_eq!(
        document,
        format!(
            "[\"{a}@val-0-0.val-0.chains.svc.cluster.local:26656\",\"{b}@val-1-0.val-1.chains.svc.cluster.local:26656\"]"
        )
    );
    assert_eq!(
        peers_except(document.as_bytes(), &a).unwrap(),
        [format!("{b}@val-1-0.val-1.chains.svc.cluster.local:26656")]
    );
    assert_eq!(peers_except(b"[]", &a).unwrap(), [""; 0]);
    for invalid in [
        "{}",
        "[1]",
        "[\"x\"]",
        "[\"x@y:1\"]",
        &format!("[\"{a}@\"]"),
        &format!("[\"{a}@b:1,{b}@c:1\"]"),
        &format!("[\"{a}@b c:1\"]"),
        &format!("[\"{a}@b:x\"]"),
    ] {
        assert_eq!(peers_except(invalid.as_bytes(), &a), Err(PeersError::Peers), "{invalid}");
    }
}

#[test]
fn node_id_is_read_from_identity_document() {
    let id = node_key(1).id();
    assert_eq!(parse_node_id("a", render_public_identity(&id).as_bytes()).unwrap(), id);
    // The upstream sidecar uploads the whole key file.
    let whole =
        format!("{{\"node_key\":{}}}", std::str::from_utf8(node_key(1).render_file().expose()).unwrap());
    assert_eq!(parse_node_id("a", whole.as_bytes()).unwrap(), id);
    for invalid in
        ["", "{}", "{\"node_key\":{\"id\":\"short\"}}", &render_public_identity(&id.to_uppercase())]
    {
        assert_eq!(
            parse_node_id("a", invalid.as_bytes()),
            Err(PeersError::Identity("a".into())),
            "{invalid}"
        );
    }
}
