//! Values of overrides.

use chain::config::table::{self, File};
use chain::config::{ConfigError, Intent};

use crate::node::{app, config, errors, full, refused, value};

/// Why an override's value is refused, or nothing.
fn why(key: &str, text: &str) -> Option<String> {
    match full("full", &[(key, text)]) {
        Ok(_) => None,
        Err(ConfigError::Value { why, .. }) => Some(why.to_string()),
        Err(other) => panic!("{key}={text}: {other}"),
    }
}

/// 9.
#[test]
fn s09_without_a_known_mode_nothing_is_written() {
    assert_eq!(full("", &[]), Err(ConfigError::NoMode));
    for mode in ["Full", "bogus", " full"] {
        assert!(matches!(full(mode, &[]), Err(ConfigError::Mode(_))), "{mode}");
    }
}

/// 10.
#[test]
fn s10_an_unknown_key_or_a_value_that_is_no_text_is_refused() {
    for key in ["evm", "evm.nothing", "EVM.http_port", "storage.pruning ", ""] {
        assert_eq!(full("full", &[(key, "1")]), Err(ConfigError::UnknownKey(key.into())));
    }
    let intent = serde_json::from_str::<Intent>(r#"{"mode":"full","overrides":{"evm.http_port":8545}}"#);
    assert!(intent.unwrap_err().to_string().contains("expected a string"));
    let intent: Intent = serde_json::from_str(r#"{"mode":"full"}"#).unwrap();
    assert_eq!(intent, Intent { mode: "full".into(), ..Intent::default() });
}

/// 11.
#[test]
fn s11_each_cell_of_the_table_of_values() {
    let (text, flag, int) = ("chain.moniker", "evm.slow", "evm.worker_queue_size");
    let (uint, float, span) = ("evm.max_tx_pool_txs", "mempool.drop_priority_threshold", "evm.trace_timeout");
    let list = "evm.deny_list";
    for (key, given, path, written) in [
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
            full("full", &[(key, given)]).unwrap_or_else(|error| panic!("{key}={given}: {error}")).files;
        let place = table::fields().find(|(field, _)| field.key == key).and_then(|(_, place)| place).unwrap();
        assert_eq!(place.file, path);
        assert_eq!(value(&files, place.file, place.path).unwrap(), written, "{key}={given}");
    }
    for (key, refused, reason) in [
        (flag, &["", " true", "on", "2"][..], "is not true or false"),
        (int, &["", "x", "9545abc", "1.5", "1_000", "0x10", "5 6", "7 "][..], "is not a whole number"),
        (int, &["9223372036854775808", "-9223372036854775809"][..], "is out of range"),
        (uint, &["-1", "+1"][..], "must have no sign"),
        // TOML could not hold it: it could be written and never be read.
        (uint, &["9223372036854775808", "18446744073709551615"][..], "is out of range"),
        (float, &["", "x", "1.5x", "nan", "inf", "-inf"][..], "is not a decimal number"),
        (span, &["", "10", "1d", " 1s", "1s ", "2562047h47m16.854775808s"][..], "is not a duration"),
        (list, &["a,", ",", "a,,b"][..], "has an empty entry"),
    ] {
        for text in refused {
            let why = why(key, text).unwrap_or_else(|| panic!("{key}={text:?} was taken"));
            assert!(why.starts_with(reason), "{key}={text:?}: {why}");
        }
    }
    for key in ["metrics.global_labels", "consensus.unsafe_bypass_commit_timeout_override"] {
        assert_eq!(why(key, "true").as_deref(), Some("cannot be set by an override"));
    }
}

/// 12.
#[test]
fn s12_a_number_beyond_the_width_of_its_field_is_refused() {
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

/// 13.
#[test]
fn s13_lists_are_told_with_commas() {
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

/// 15.
#[test]
fn s15_durations_are_written_as_go_writes_them() {
    let written = |text: &str| {
        full("full", &[("mempool.ttl_duration", text)])
            .map(|resolved| config(&resolved.files, "mempool.ttl-duration"))
    };
    assert_eq!(written("1.5h").unwrap(), "\"1h30m0s\"");
    assert_eq!(written("1500us").unwrap(), "\"1.5ms\"");
    assert_eq!(written("0").unwrap(), "\"0s\"");
    assert_eq!(errors(&refused(full("full", &[("mempool.ttl_duration", "-5s")]))), ["mempool.ttl_duration"]);
    for text in ["10", "1d"] {
        assert!(why("mempool.ttl_duration", text).is_some(), "{text}");
    }
}
