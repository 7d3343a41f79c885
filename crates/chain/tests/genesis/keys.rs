//! Keys, addresses and their files.

use chain::address::Prefix;
use chain::identity::{ConsensusKey, INITIAL_VALIDATOR_STATE, KeyFileError, NodeKey, render_public_identity};
use chain::sha256;

use crate::ceremony::{consensus_key, node_key, vector_key};

#[test]
fn addresses_match_test_vectors() {
    let key = vector_key();
    let hex: String = key.public().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "02ba66a84cf7839af172a13e7fc9f5e7008cb8bca1585f8f3bafb3039eda3c1fdd");
    let address = key.address();
    assert_eq!(address.to_hex(), "1d19480dbdf192bbc6f35415a59983c0e6bfb65c");
    assert_eq!(address.to_bech32(Prefix::Account), "sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd37");
    assert_eq!(address.to_bech32(Prefix::Operator), "seivaloper1r5v5srda7xfth3hn2s26txvrcrntldjugg8rsw");
    assert_eq!(key.evm_address(), "0x5e15daEB3cF857735c6ACaE58703f04F7c7bd5cf");
    assert_eq!(node_key(1).id(), "34750f98bd59fcfc946da45aaabe933be154a4b5");
    assert_eq!(consensus_key(2).address(), "seivalcons1dguq840stxgz58rd477fhfrjjgf00j4vlf524r");
}

#[test]
fn key_files_match_seid_byte_for_byte() {
    let file = node_key(1).render_file();
    let text = std::str::from_utf8(file.expose()).unwrap();
    assert_eq!(text.len(), 196);
    assert_eq!(
        text,
        "{\"id\":\"34750f98bd59fcfc946da45aaabe933be154a4b5\",\"priv_key\":{\"type\":\"tendermint/PrivKeyEd25519\",\"value\":\"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQGKiOPddAnxlf1S2y08ul1yymcJvx2UEhvzdIgBtA9vXA==\"}}"
    );
    let file = consensus_key(2).file();
    let text = std::str::from_utf8(file.expose()).unwrap();
    assert_eq!(text.len(), 345);
    assert!(text.starts_with("{\n  \"address\": \"6A3803D5F059902A1C6DAFBC9BA4729212F7CAAC\",\n  \"pub_key\": {\n    \"type\": \"tendermint/PubKeyEd25519\",\n    \"value\": \"gTl3Dqh9F19Wo1Rmw0x+zMuNipG07jeiXfYPW4/Js5Q=\"\n  },\n"), "{text}");
    assert_eq!(INITIAL_VALIDATOR_STATE.len(), 46);
    assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[test]
fn key_files_round_trip() {
    let node = node_key(7);
    assert_eq!(
        NodeKey::parse(node.render_file().expose()).unwrap().render_file().expose(),
        node.render_file().expose()
    );
    let consensus = consensus_key(8);
    let again = ConsensusKey::parse(consensus.file().expose()).unwrap();
    assert_eq!(again.file().expose(), consensus.file().expose());
    // The ID in the file is ignored: seid derives it from the key.
    let text = String::from_utf8(node.render_file().expose().to_vec()).unwrap();
    let renamed = text.replace(&node.id(), &node_key(9).id());
    assert_eq!(NodeKey::parse(renamed.as_bytes()).unwrap().id(), node.id());
}

#[test]
fn key_file_errors_do_not_reveal_content() {
    let text = String::from_utf8(node_key(1).render_file().expose().to_vec()).unwrap();
    let parse_error = |text: &str| NodeKey::parse(text.as_bytes()).unwrap_err();
    assert_eq!(parse_error("{"), KeyFileError::Syntax("node_key.json"));
    assert_eq!(parse_error(&text.replace("AQEB", "AQE")), KeyFileError::Syntax("node_key.json"));
    assert_eq!(
        parse_error(&text.replace("PrivKeyEd25519", "PrivKeySecp256k1")),
        KeyFileError::Type("node_key.json")
    );
    assert_eq!(parse_error(&text.replace("\"AQEB", "\"AQEC")), KeyFileError::Mismatch("node_key.json"));
    let text = String::from_utf8(consensus_key(2).file().expose().to_vec()).unwrap();
    let swapped = text.replace(
        "gTl3Dqh9F19Wo1Rmw0x+zMuNipG07jeiXfYPW4/Js5Q=\"\n  },",
        "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=\"\n  },",
    );
    assert_ne!(text, swapped);
    let error = ConsensusKey::parse(swapped.as_bytes()).unwrap_err();
    assert_eq!(error, KeyFileError::Mismatch("priv_validator_key.json"));
    assert!(!error.to_string().contains("AgIC"), "{error}");
}

#[test]
fn debug_output_hides_private_keys() {
    let (node, consensus, account) = (node_key(1), consensus_key(2), vector_key());
    let shown = format!("{node:?} {consensus:?} {account:?} {:?} {:?}", node.render_file(), consensus.file());
    assert_eq!(
        shown,
        "NodeKey(34750f98bd59fcfc946da45aaabe933be154a4b5) ConsensusKey(seivalcons1dguq840stxgz58rd477fhfrjjgf00j4vlf524r) AccountKey(Address(sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd37)) Secret(..) Secret(..)"
    );
    assert_eq!(
        render_public_identity(&node.id()),
        "{\"node_key\":{\"id\":\"34750f98bd59fcfc946da45aaabe933be154a4b5\"}}"
    );
}
