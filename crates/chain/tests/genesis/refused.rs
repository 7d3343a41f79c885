//! GEN-12: what seid would panic at is refused when a genesis is assembled.

use chain::genesis::{Genesis, GenesisError};
use chain::gentx::GentxError;

use crate::ceremony::{CHAIN, TIME, account_key, assembled, assembled_with, base, gentx, gentx_of};

/// Why one node with a gentx that was changed is refused.
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
fn a_gentx_that_cannot_be_is_refused_by_what_is_wrong() {
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
    let other = account_key(4).address().to_text(chain::address::Prefix::Operator);
    let own = account_key(3).address().to_text(chain::address::Prefix::Operator);
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
fn a_gentx_that_is_none_is_refused() {
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
fn nodes_that_share_a_key_are_both_named() {
    let twice = assembled(&[("a", &gentx(3)), ("b", &gentx(4)), ("c", &gentx(3))]).unwrap_err();
    assert_eq!(
        twice.to_string(),
        "nodes a and c have the same delegator; generate the gentx of one of them again"
    );
    let same_key = gentx_of(&account_key(5), 3, "10000000usei", CHAIN).file();
    let twice = assembled(&[("a", &gentx(3)), ("b", &same_key)]).unwrap_err();
    assert_eq!(
        twice.to_string(),
        "nodes a and b have the same consensus key; generate the gentx of one of them again"
    );
    let twice = assembled(&[("a", &gentx(3)), ("a", &gentx(4))]).unwrap_err();
    assert!(matches!(twice, GenesisError::Shared { what: "name", .. }), "{twice}");
}

#[test]
fn a_stake_that_gives_no_vote_is_refused() {
    let with = |stake: &str| {
        let file = gentx_of(&account_key(3), 3, stake, CHAIN).file();
        assembled(&[("a", &file)]).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(with("999999usei").unwrap_err(), "node a: stakes 999999usei, and a vote costs 1000000usei");
    with("1000000usei").unwrap();
    assert_eq!(with("10000000uatom").unwrap_err(), "node a: stakes uatom, and the chain's token is usei");
    let error = with("1000000000001usei").unwrap_err();
    assert!(error.starts_with("node a: stakes 1000000000001usei, and account sei1"), "{error}");
}

#[test]
fn limits_of_the_chain_are_kept_also_when_they_are_overridden() {
    let nodes: [(&str, &str); 2] = [("a", &gentx(3)), ("b", &gentx(4))];
    let with = |path, value| assembled_with(&nodes, &[], &[(path, value)]).map(drop).unwrap_err().to_string();
    assert_eq!(
        with("staking.params.max_validators", "1"),
        "2 validators are more than max_validators, 1; raise staking.params.max_validators or take fewer"
    );
    assert_eq!(
        with("staking.params.min_commission_rate", "\"0.11\""),
        "node a: keeps 0.100000000000000000 of rewards, and must keep 0.110000000000000000"
    );
    assert_eq!(
        with("staking.params.bond_denom", "\"uatom\""),
        "node a: stakes usei, and the chain's token is uatom"
    );
    assert_eq!(
        with("auth.params.max_memo_characters", "\"10\""),
        "node a: has a memo of more than 10 characters"
    );
    assert_eq!(assembled(&[]).unwrap_err(), GenesisError::Nobody);
}

#[test]
fn a_document_that_is_none_is_refused() {
    let time = TIME.parse().unwrap();
    assert!(matches!(Genesis::new("", time), Err(GenesisError::ChainId(_))));
    assert!(matches!(Genesis::new(&"x".repeat(51), time), Err(GenesisError::ChainId(_))));
    Genesis::new(&"x".repeat(50), time).unwrap();
    let file = base().file();
    let refuse = |from: &str, to: &str| {
        let other = file.replacen(from, to, 1);
        assert_ne!(other, file, "{from}");
        Genesis::parse(other.as_bytes()).unwrap_err()
    };
    assert!(matches!(
        refuse("\"initial_height\": \"1\"", "\"initial_height\": \"5\""),
        GenesisError::Shape("initial_height", _)
    ));
    assert!(matches!(refuse("\"app_state\"", "\"app\""), GenesisError::Shape("app_state", _)));
    assert!(matches!(refuse("2026-01-02T03:04:05Z", "soon"), GenesisError::Shape("genesis_time", _)));
    assert!(matches!(refuse("{", "["), GenesisError::Syntax(_)));
}
