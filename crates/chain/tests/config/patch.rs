//! Raw edits with `config-patch`.

use std::str::FromStr as _;

use chain::config::{PatchError, Patchable, patch, set_client_chain_id, set_persistent_peers};
use serde_json::{Value as Json, json};

fn patched(text: &str, tree: &Json) -> String {
    patch(Patchable::Config, text, tree.as_object().unwrap()).unwrap()
}

#[test]
fn patch_changes_named_keys_only() {
    let before =
        "# top\nmoniker = 'a' # name\nforeign = 1\n\n[p2p] # peers\n  # who\n  pex = true\n  laddr = \"x\"\n";
    let tree = json!({ "moniker": "b", "p2p": { "pex": false, "laddr": null, "size": 7000 }, "new": { "a": [1, 2.5] } });
    assert_eq!(
        patched(before, &tree),
        "# top\nmoniker = \"b\" # name\nforeign = 1\n\n[p2p] # peers\n  # who\n  pex = false\n  size = 7000\n\n[new]\na = [1, 2.5]\n"
    );
    assert_eq!(patched("", &json!({ "a": { "b": { "c": "d" } } })), "\n[a]\n\n[a.b]\nc = \"d\"\n");
    assert_eq!(patched("a = { b = 1 }\n", &json!({ "a": { "b": 2 } })), "a = { b = 2 }\n");
    assert_eq!(patched("a = 1\n", &json!({ "gone": null })), "a = 1\n");
}

/// Guards against path traversal.
#[test]
fn patchable_files_are_an_allow_list() {
    for name in ["config.toml", "app.toml", "client.toml"] {
        assert_eq!(Patchable::from_str(name).unwrap().name(), name);
    }
    for name in ["../config.toml", "node_key.json", "", "config.toml/", "/etc/passwd", "Config.toml"] {
        assert_eq!(Patchable::from_str(name), Err(PatchError::Name(name.into())));
    }
}

#[test]
fn patch_error_names_file_and_key() {
    let patch_error =
        |tree: Json| patch(Patchable::App, "", tree.as_object().unwrap()).unwrap_err().to_string();
    assert_eq!(
        patch_error(json!({ "a": { "b": 18_446_744_073_709_551_615_u64 } })),
        "app.toml: a.b is above 9223372036854775807, the TOML integer maximum"
    );
    assert!(patch_error(json!({ "a": [null] })).starts_with("app.toml: a has a null list element"));
    let error = patch(Patchable::App, "a = ", json!({}).as_object().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("app.toml is not valid TOML: line 1: "), "{error}");
}

#[test]
fn presets_set_peers_and_chain_id() {
    let (a, b) = (format!("{}@b:1", "0a".repeat(20)), format!("{}@d:2", "0b".repeat(20)));
    let peers = [a.clone(), b.clone()];
    let text =
        set_persistent_peers("[p2p]\n  # mine\n  persistent-peers = \"\"\n  pex = true\n", &peers).unwrap();
    assert_eq!(text, format!("[p2p]\n  # mine\n  persistent-peers = \"{a},{b}\"\n  pex = true\n"));
    let defaults = "output = \"text\"\nnode = \"tcp://localhost:26657\"\nbroadcast-mode = \"sync\"\n";
    assert_eq!(
        set_client_chain_id("", "arctic-1").unwrap(),
        format!("chain-id = \"arctic-1\"\nkeyring-backend = \"os\"\n{defaults}")
    );
    assert_eq!(
        set_client_chain_id("keyring-backend = \"test\" # ours\nchain-id = \"\" # x\n", "a").unwrap(),
        format!("keyring-backend = \"test\" # ours\nchain-id = \"a\" # x\n{defaults}")
    );
}

#[test]
fn invalid_peers_are_rejected() {
    let id = "0a".repeat(20);
    let file = "[p2p]\npersistent-peers = \"mine\"\n";
    let with = |key: &str, peers: &str| {
        patch(Patchable::Config, file, json!({ "p2p": { key: peers } }).as_object().unwrap())
    };
    for key in ["persistent-peers", "Persistent-Peers", "bootstrap-peers", "blocksync-peers"] {
        with(key, &format!("{id}@host:26656, {id}@[::1]:1")).unwrap();
        with(key, "").unwrap();
        for bad in [
            "host:26656",
            "ab@host:26656",
            &format!("{id}x@host:1"),
            &format!("{id}@a b:1"),
            &format!("{id}@:1"),
        ] {
            let error = with(key, bad).unwrap_err().to_string();
            assert!(error.contains("invalid peer"), "{key}: {bad}: {error}");
        }
    }
    // A list that does not change is not checked.
    with("persistent-peers", "mine").unwrap();
    with("laddr", "x").unwrap();
}
