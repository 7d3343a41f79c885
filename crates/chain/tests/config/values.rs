//! Override values.

use chain::config::table::{self, File};
use chain::config::{ConfigError, Intent};

use crate::fixture::{app, config, errors, full, rejected, value};

/// Returns the reason why an override's value is rejected.
fn why(key: &str, text: &str) -> Option<String> {
    match full("full", &[(key, text)]) {
        Ok(_) => None,
        Err(ConfigError::Value { why, .. }) => Some(why.to_string()),
        Err(other) => panic!("{key}={text}: {other}"),
    }
}

#[test]
fn missing_or_unknown_mode_is_rejected() {
    assert_eq!(full("", &[]), Err(ConfigError::MissingMode));
    for mode in ["Full", "bogus", " full"] {
        assert!(matches!(full(mode, &[]), Err(ConfigError::Mode(_))), "{mode}");
    }
}

#[test]
fn unknown_key_or_non_string_value_is_rejected() {
    for key in ["evm", "evm.nothing", "EVM.http_port", "storage.pruning ", ""] {
        assert_eq!(full("full", &[(key, "1")]), Err(ConfigError::UnknownKey(key.into())));
    }
    let intent = serde_json::from_str::<Intent>(r#"{"mode":"full","overrides":{"evm.http_port":8545}}"#);
    assert!(intent.unwrap_err().to_string().contains("expected a string"));
    let intent: Intent = serde_json::from_str(r#"{"mode":"full"}"#).unwrap();
    assert_eq!(intent, Intent { mode: "full".into(), ..Intent::default() });
}

#[test]
fn every_type_parses_and_rejects_its_values() {
    let (text, flag, int) = ("chain.moniker", "evm.slow", "evm.worker_queue_size");
    let (uint, float, span) = ("evm.max_tx_pool_txs", "mempool.drop_priority_threshold", "evm.trace_timeout");
    let list = "evm.deny_list";
    for (key, text, file, literal) in [
        (text, "", File::Config, "\"\""),
        (text, " a\"b\\c\n", File::Config, "\" a\\\"b\\\\c\\n\""),
        (flag, "TRUE", File::App, "true"),
        (flag, "1", File::App, "true"),
        (flag, "Yes", File::App, "true"),
        (flag, "false", File::App, "false"),
        (flag, "0", File::App, "false"),
        (flag, "no", File::App, "false"),
        (int, "7", File::App, "7"),
        (int, " 7", File::App, "7"),
        (int, "+7", File::App, "7"),
        (int, "-7", File::App, "-7"),
        (uint, "9223372036854775807", File::App, "9223372036854775807"),
        (float, "0.25", File::Config, "0.25"),
        (float, "2", File::Config, "2.0"),
        (float, "1e-3", File::Config, "0.001"),
        (span, "1h2m3.5s", File::App, "\"1h2m3.5s\""),
        (span, "0", File::App, "\"0s\""),
        (list, " a , b", File::App, "[\"a\", \"b\"]"),
        (list, "", File::App, "[]"),
    ] {
        let files =
            full("full", &[(key, text)]).unwrap_or_else(|error| panic!("{key}={text}: {error}")).files;
        let location =
            table::fields().find(|(field, _)| field.key == key).and_then(|(_, location)| location).unwrap();
        assert_eq!(location.file, file);
        assert_eq!(value(&files, location.file, location.path).unwrap(), literal, "{key}={text}");
    }
    for (key, rejected, reason) in [
        (flag, &["", " true", "on", "2"][..], "is not true or false"),
        (int, &["", "x", "9545abc", "1.5", "1_000", "0x10", "5 6", "7 "][..], "is not an integer"),
        (int, &["9223372036854775808", "-9223372036854775809"][..], "is out of range"),
        (uint, &["-1", "+1"][..], "must have no sign"),
        // TOML integers are signed 64-bit: it could be written but not parsed.
        (uint, &["9223372036854775808", "18446744073709551615"][..], "is out of range"),
        (float, &["", "x", "1.5x", "nan", "inf", "-inf"][..], "is not a decimal number"),
        (span, &["", "10", "1d", " 1s", "1s ", "2562047h47m16.854775808s"][..], "is not a duration"),
        (list, &["a,", ",", "a,,b"][..], "has an empty entry"),
    ] {
        for text in rejected {
            let why = why(key, text).unwrap_or_else(|| panic!("{key}={text:?} was accepted"));
            assert!(why.starts_with(reason), "{key}={text:?}: {why}");
        }
    }
    for key in ["metrics.global_labels", "consensus.unsafe_bypass_commit_timeout_override"] {
        assert_eq!(why(key, "true").as_deref(), Some("cannot be set by an override"));
    }
}

#[test]
fn out_of_range_number_is_rejected() {
    assert_eq!(why("network.p2p.max_connections", "70000").unwrap(), "is out of range: from 0 to 65535");
    assert_eq!(
        why("state_sync.fetchers", "3000000000").unwrap(),
        "is out of range: from -2147483648 to 2147483647"
    );
    assert_eq!(
        why("storage.snapshot_keep_recent", "4294967296").unwrap(),
        "is out of range: from 0 to 4294967295"
    );
}

#[test]
fn lists_are_comma_separated() {
    let indexer =
        |text: &str| full("full", &[("tx_index.indexer", text), ("tx_index.psql_conn", "postgres://")]);
    let written = |text: &str| config(&indexer(text).unwrap().files, "tx-index.indexer");
    assert_eq!(written("kv"), "[\"kv\"]");
    assert_eq!(written(" kv , psql "), "[\"kv\", \"psql\"]");
    assert_eq!(written(""), "[]");
    assert!(matches!(indexer("kv,"), Err(ConfigError::Value { .. })));
    assert_eq!(value(&full("full", &[]).unwrap().files, File::App, "index-events"), None);
    assert_eq!(app(&full("full", &[("chain.index_events", "")]).unwrap().files, "index-events"), "[]");
}

#[test]
fn durations_are_formatted_like_go() {
    let written = |text: &str| {
        full("full", &[("mempool.ttl_duration", text)])
            .map(|resolved| config(&resolved.files, "mempool.ttl-duration"))
    };
    assert_eq!(written("1.5h").unwrap(), "\"1h30m0s\"");
    assert_eq!(written("1500us").unwrap(), "\"1.5ms\"");
    assert_eq!(written("0").unwrap(), "\"0s\"");
    assert_eq!(errors(&rejected(full("full", &[("mempool.ttl_duration", "-5s")]))), ["mempool.ttl_duration"]);
    for text in ["10", "1d"] {
        assert!(why("mempool.ttl_duration", text).is_some(), "{text}");
    }
}
