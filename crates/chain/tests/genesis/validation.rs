//! Assembly rejects everything that would make seid panic.

use chain::genesis::{Genesis, GenesisError};
use chain::gentx::GentxError;

use crate::ceremony::{CHAIN, TIME, account_key, assembled, assembled_with, base, gentx, gentx_of};

/// Returns the error for a modified gentx.
fn changed(from: &str, to: &str) -> GentxError {
    let file = gentx(3);
    let other = file.replacen(from, to, 1);
    assert_ne!(file, other, "{from}");
    match assembled(&[("a", &other)]) {
        Err(GenesisError::Gentx { node, error }) if node == "a" => error,
        other => panic!("{from} -> {to}: {other:?}"),
    }
}

fn field(error: &GentxError) -> &'static str {
    match error {
        GentxError::Field { field, .. } => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn invalid_gentx_error_names_the_field() {
    assert_eq!(field(&changed(&memo(), "")), "memo");
    assert_eq!(field(&changed("\"moniker\":\"val-0\"", "\"moniker\":\"\"")), "description");
    assert_eq!(
        field(&changed("\"min_self_delegation\":\"1\"", "\"min_self_delegation\":\"0\"")),
        "min_self_delegation"
    );
    assert_eq!(
        field(&changed("\"min_self_delegation\":\"1\"", "\"min_self_delegation\":\"10000001\"")),
        "min_self_delegation"
    );
    assert_eq!(field(&changed("\"amount\":\"10000000\"", "\"amount\":\"010000000\"")), "value");
    assert_eq!(field(&changed("\"amount\":\"10000000\"", "\"amount\":\"0\"")), "value");
    assert_eq!(field(&changed("\"rate\":\"0.1", "\"rate\":\"0.3")), "commission.rate");
    assert_eq!(field(&changed("\"max_rate\":\"0.2", "\"max_rate\":\"1.2")), "commission.max_rate");
    assert_eq!(
        field(&changed("\"max_change_rate\":\"0.01", "\"max_change_rate\":\"0.31")),
        "commission.max_change_rate"
    );
    assert_eq!(field(&changed("/cosmos.crypto.ed25519.PubKey", "/cosmos.crypto.other.PubKey")), "pubkey");
    assert_eq!(field(&changed("SIGN_MODE_DIRECT", "SIGN_MODE_TEXTUAL")), "mode_info");
    assert_eq!(field(&changed("\"sequence\":\"0\"", "\"sequence\":\"1\"")), "sequence");
    assert_eq!(
        field(&changed("/cosmos.crypto.secp256k1.PubKey", "/cosmos.crypto.other.PubKey")),
        "public_key"
    );
    assert_eq!(field(&changed("\"signatures\":[", "\"signatures\":[\"\",")), "signatures");
    let other = account_key(4).address().to_bech32(chain::address::Prefix::Operator);
    let own = account_key(3).address().to_bech32(chain::address::Prefix::Operator);
    assert_eq!(field(&changed(&own, &other)), "validator_address");
    assert!(matches!(
        changed("\"timeout_height\":\"0\"", "\"timeout_height\":\"9\""),
        GentxError::Signature(_)
    ));
}

fn memo() -> String {
    format!("{}@192.0.2.1:26656", crate::ceremony::node_key(1).id())
}

#[test]
fn malformed_gentx_is_rejected() {
    assert!(
        matches!(changed("MsgCreateValidator", "MsgDelegate"), GentxError::MessageType(kind) if kind.ends_with("MsgDelegate"))
    );
    assert_eq!(changed("\"messages\":[", "\"messages\":[{},"), GentxError::Messages(2));
    assert!(matches!(changed("\"memo\":", "\"memory\":"), GentxError::Syntax(_)));
    assert!(matches!(changed("{\"body\"", "{\"tip\":null,\"body\""), GentxError::Syntax(_)));
    assert!(matches!(
        changed("\"extension_options\":[]", "\"extension_options\":[1]"),
        GentxError::Syntax(_)
    ));
    let none = [("not json", 0), ("{}", 0), ("", 0)];
    for (text, _) in none {
        assert!(matches!(assembled(&[("a", text)]), Err(GenesisError::Gentx { .. })), "{text}");
    }
    let large = format!("{}{}", gentx(3), " ".repeat(1 << 20));
    assert!(matches!(
        assembled(&[("a", &large)]),
        Err(GenesisError::Gentx { error: GentxError::TooLarge(_), .. })
    ));
}

#[test]
fn shared_key_error_names_both_nodes() {
    let error = assembled(&[("a", &gentx(3)), ("b", &gentx(4)), ("c", &gentx(3))]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nodes a and c have the same delegator; regenerate the gentx of one of them"
    );
    let same_key = gentx_of(&account_key(5), 3, "10000000usei", CHAIN).file();
    let error = assembled(&[("a", &gentx(3)), ("b", &same_key)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nodes a and b have the same consensus key; regenerate the gentx of one of them"
    );
    let error = assembled(&[("a", &gentx(3)), ("a", &gentx(4))]).unwrap_err();
    assert!(matches!(error, GenesisError::Shared { what: "name", .. }), "{error}");
}

#[test]
fn stake_below_minimum_is_rejected() {
    let with = |stake: &str| {
        let file = gentx_of(&account_key(3), 3, stake, CHAIN).file();
        assembled(&[("a", &file)]).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(
        with("999999usei").unwrap_err(),
        "node a: stake 999999usei is below the minimum of 1000000usei"
    );
    with("1000000usei").unwrap();
    assert_eq!(
        with("10000000uatom").unwrap_err(),
        "node a: stake denomination is uatom, but the chain's bond denomination is usei"
    );
    let error = with("1000000000001usei").unwrap_err();
    assert!(
        error.starts_with("node a: stake 1000000000001usei exceeds the balance of account sei1"),
        "{error}"
    );
}

#[test]
fn overridden_chain_limits_are_enforced() {
    let nodes: [(&str, &str); 2] = [("a", &gentx(3)), ("b", &gentx(4))];
    let with = |path, value| assembled_with(&nodes, &[], &[(path, value)]).map(drop).unwrap_err().to_string();
    assert_eq!(
        with("staking.params.max_validators", "1"),
        "2 validators exceed the maximum of 1; raise staking.params.max_validators or use fewer"
    );
    assert_eq!(
        with("staking.params.min_commission_rate", "\"0.11\""),
        "node a: commission rate 0.100000000000000000 is below the minimum of 0.110000000000000000"
    );
    assert_eq!(
        with("staking.params.bond_denom", "\"uatom\""),
        "node a: stake denomination is usei, but the chain's bond denomination is uatom"
    );
    assert_eq!(
        with("auth.params.max_memo_characters", "\"10\""),
        "node a: memo exceeds the maximum of 10 characters"
    );
    assert_eq!(assembled(&[]).unwrap_err(), GenesisError::NoParticipants);
}

#[test]
fn malformed_genesis_is_rejected() {
    let time = TIME.parse().unwrap();
    assert!(matches!(Genesis::new("", time), Err(GenesisError::ChainId(_))));
    assert!(matches!(Genesis::new(&"x".repeat(51), time), Err(GenesisError::ChainId(_))));
    Genesis::new(&"x".repeat(50), time).unwrap();
    let file = base().file();
    let parse_error = |from: &str, to: &str| {
        let other = file.replacen(from, to, 1);
        assert_ne!(other, file, "{from}");
        Genesis::parse(other.as_bytes()).unwrap_err()
    };
    assert!(matches!(
        parse_error("\"initial_height\": \"1\"", "\"initial_height\": \"5\""),
        GenesisError::Shape("initial_height", _)
    ));
    assert!(matches!(parse_error("\"app_state\"", "\"app\""), GenesisError::Shape("app_state", _)));
    assert!(matches!(parse_error("2026-01-02T03:04:05Z", "soon"), GenesisError::Shape("genesis_time", _)));
    assert!(matches!(parse_error("{", "["), GenesisError::Syntax(_)));
}
