//! Gentx files.

use chain::address::Prefix;
use chain::coin::Coin;
use chain::gentx::{Gentx, GentxError, GentxParams};
use chain::sha256;

use crate::ceremony::{CHAIN, consensus_key, declaration, gentx_of, node_key, vector_key};

fn vector(gas_limit: u64) -> Gentx {
    let (node, stake) = (node_key(1).id(), Coin::parse("10000000usei").unwrap());
    let declaration = GentxParams { gas_limit, ..declaration(&node, &stake) };
    Gentx::sign(&declaration, &vector_key()).unwrap()
}

#[test]
fn gentx_file_matches_test_vector() {
    let file = vector(0).file();
    assert_eq!(file.len(), 1147);
    assert_eq!(sha256(file.as_bytes()), "8fadd1a0f300f8b7d98a2b53ca44458c12bf781c4ee5c1fffd4f8224c07ae8b8");
    let signature =
        "yyOmwcsk0g9qlkjTrf3qpSLjljkYrUpoVo3vWgDVEUlVzAB5ETuCJXih3ue7ynFMS9x0HL435fuGdzOTEw89kw==";
    assert!(file.ends_with(&format!("\"signatures\":[\"{signature}\"]}}\n")), "{file}");
    let signature =
        "BXCmLLMpWYD20ptyNpNej6Y2d9CqJJYxb7WWw0WUpKJJAC2VODkIz28Wm42sN5HTFYL70fsHAJuYWuxvdpusTg==";
    let file = vector(200_000).file();
    assert!(file.ends_with(&format!("\"signatures\":[\"{signature}\"]}}\n")), "{file}");
}

#[test]
fn gentx_round_trips() {
    let gentx = vector(0);
    let read = Gentx::parse(gentx.file().as_bytes(), CHAIN).unwrap();
    assert_eq!(read, gentx);
    assert_eq!(read.delegator().to_bech32(Prefix::Account), "sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd37");
    assert_eq!(read.stake().to_string(), "10000000usei");
    assert_eq!(*read.consensus_key(), consensus_key(2).public());
    // Other tools omit this field and sign the same bytes.
    let without = gentx.file().replace(",\"gas_estimate\":\"0\"", "");
    assert_ne!(without, gentx.file());
    assert_eq!(Gentx::parse(without.as_bytes(), CHAIN).unwrap().file(), gentx.file());
}

/// HTML characters in a moniker are escaped in the file but signed unescaped.
#[test]
fn moniker_is_escaped_like_go() {
    let (node, stake) = (node_key(1).id(), Coin::parse("10000000usei").unwrap());
    let declaration = GentxParams { moniker: "<a>&\"b\"", ..declaration(&node, &stake) };
    let file = Gentx::sign(&declaration, &vector_key()).unwrap().file();
    assert!(file.contains(r#""moniker":"\u003ca\u003e\u0026\"b\"""#), "{file}");
    Gentx::parse(file.as_bytes(), CHAIN).unwrap();
    let long = "m".repeat(71);
    let too_long = GentxParams { moniker: &long, ..declaration.clone() };
    assert!(matches!(Gentx::sign(&too_long, &vector_key()), Err(GentxError::Field { field: "moniker", .. })));
    let nameless = GentxParams { moniker: "", ..declaration };
    assert!(matches!(
        Gentx::sign(&nameless, &vector_key()),
        Err(GentxError::Field { field: "description", .. })
    ));
}

#[test]
fn foreign_or_forged_signature_is_rejected() {
    let file = gentx_of(&vector_key(), 2, "10000000usei", "other-1").file();
    let error = Gentx::parse(file.as_bytes(), CHAIN).unwrap_err();
    assert_eq!(error, GentxError::Signature(CHAIN.into()));
    Gentx::parse(file.as_bytes(), "other-1").unwrap();
    let forged = vector(0).file().replace("\"amount\":\"10000000\"", "\"amount\":\"20000000\"");
    assert_eq!(Gentx::parse(forged.as_bytes(), CHAIN).unwrap_err(), GentxError::Signature(CHAIN.into()));
}
