//! Assembled genesis file.

use chain::json::Json;
use chain::sha256;

use crate::ceremony::{assembled, base, consensus_key, gentx};

/// Without the list, a chain with one validator does not start.
#[test]
fn validators_are_listed_with_voting_power() {
    let file = assembled(&[("a", &gentx(3))]).unwrap().file;
    let json = Json::parse(file.as_bytes()).unwrap();
    let key = base64_of(&consensus_key(3).public());
    assert_eq!(json.at(&["validators"]).unwrap().as_array().unwrap().len(), 1);
    let validator = json.at(&["validators"]).unwrap().as_array().unwrap()[0].compact();
    assert!(validator.starts_with("{\"address\":\""), "{validator}");
    assert!(
        validator.ends_with(&format!(
            "\"pub_key\":{{\"type\":\"tendermint/PubKeyEd25519\",\"value\":\"{key}\"}},\"power\":\"10\",\"name\":\"\"}}"
        )),
        "{validator}"
    );
    let names: Vec<&str> = json.as_object().unwrap().iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "genesis_time",
            "chain_id",
            "initial_height",
            "consensus_params",
            "validators",
            "app_hash",
            "app_state"
        ]
    );
}

fn base64_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn genesis_hash_is_deterministic() {
    let nodes: [(&str, &str); 3] = [("c", &gentx(5)), ("a", &gentx(3)), ("b", &gentx(4))];
    let first = assembled(&nodes).unwrap();
    assert_eq!(first.hash, sha256(first.file.as_bytes()));
    let [c, a, b] = nodes;
    assert_eq!(assembled(&[a, b, c]).unwrap(), first);
    assert!(first.file.ends_with("}") && first.file.starts_with("{\n  \"genesis_time\""));
}

#[test]
fn gentxs_are_sorted_by_file_name() {
    // File names: `gentx-a-1.json` sorts before `gentx-a.json`, and `gentx-a10.json` before `gentx-a2.json`.
    let (one, two, three, four) = (gentx(3), gentx(4), gentx(5), gentx(6));
    let nodes: [(&str, &str); 4] = [("a", &one), ("a-1", &two), ("a2", &three), ("a10", &four)];
    let file = assembled(&nodes).unwrap().file;
    let json = Json::parse(file.as_bytes()).unwrap();
    let order: Vec<String> = json
        .at(&["app_state", "genutil", "gen_txs"])
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .map(|gentx| gentx.compact() + "\n")
        .collect();
    assert_eq!(order, [two, one, four, three]);
}

#[test]
fn two_validators_get_a_warning() {
    let count = |nodes: &[(&str, &str)]| assembled(nodes).unwrap().warnings.len();
    assert_eq!(count(&[("a", &gentx(3))]), 0);
    assert_eq!(count(&[("a", &gentx(3)), ("b", &gentx(4))]), 1);
    assert_eq!(count(&[("a", &gentx(3)), ("b", &gentx(4)), ("c", &gentx(5))]), 0);
}

#[test]
fn genesis_round_trips() {
    let file = base().file();
    assert_eq!(chain::genesis::Genesis::parse(file.as_bytes()).unwrap().file(), file);
    // Modules are sorted by name.
    let json = Json::parse(file.as_bytes()).unwrap();
    let modules: Vec<&str> =
        json.at(&["app_state"]).unwrap().as_object().unwrap().iter().map(|(name, _)| name).collect();
    assert_eq!(modules.len(), 23);
    assert!(modules.is_sorted());
}
