//! Changes of files that are there, and their judgement.

use chain::config::table::File;
use chain::config::{ConfigError, Files, Intent, resolve, unknown_keys, validate};

use crate::node::{app, changed, config, errors, full, host, incremental, refused, value, warnings};

/// What `seid init` writes, shortened, with everything about it that differs from what we write.
const SEID_CONFIG: &str = include_str!("../data/seid-init-config.toml");
const SEID_APP: &str = include_str!("../data/seid-init-app.toml");

fn seid_init() -> Files {
    Files { config: SEID_CONFIG.into(), app: SEID_APP.into() }
}

/// 22.
#[test]
fn s22_only_the_key_changes_that_was_asked_for() {
    for mode in ["validator", "full", "seed", "archive"] {
        let before = full(mode, &[]).unwrap().files;
        let resolved = incremental("", &[("evm.http_port", "9999")], &before).unwrap();
        assert_eq!(resolved.mode.name(), mode);
        assert_eq!(resolved.files.config, before.config);
        assert_eq!(changed(&before.app, &resolved.files.app), [("  http_port = 8545", "  http_port = 9999")]);
    }
}

/// 23.
#[test]
fn s23_a_mode_that_changes_is_a_label_only() {
    let before = full("full", &[]).unwrap().files;
    let resolved = incremental("validator", &[], &before).unwrap();
    assert_eq!(
        changed(&before.config, &resolved.files.config),
        [("mode = \"full\"", "mode = \"validator\"")]
    );
    assert_eq!(changed(&before.app, &resolved.files.app), [("  mode = \"full\"", "  mode = \"validator\"")]);
    assert_eq!(warnings(&resolved.findings), ["evm"]);
    assert_eq!(app(&resolved.files, "evm.http_enabled"), "true");
    assert_eq!(errors(&refused(incremental("bogus", &[], &before))), ["mode"]);
}

/// 24. A file that is missing is the caller's to tell; without both there is nothing to change.
#[test]
fn s24_without_files_there_is_nothing_to_change() {
    let intent = Intent { incremental: true, ..Intent::default() };
    assert_eq!(resolve(&intent, None, &host()), Err(ConfigError::NoFiles));
    let broken = Files { config: "a = \"1\"\nb == 2".into(), app: String::new() };
    let error = incremental("", &[], &broken).unwrap_err();
    assert_eq!(error.category(), "file");
    assert!(error.to_string().starts_with("config.toml is not TOML: line 2: "), "{error}");
}

/// 25.
#[test]
fn s25_without_a_label_the_mode_is_seids_and_the_version_the_newest() {
    let mut files = full("validator", &[]).unwrap().files;
    files.app.truncate(files.app.find("\n[sei]").unwrap());
    let report = validate(&files, &host()).unwrap();
    assert_eq!((report.valid, report.version, report.mode.as_str()), (true, 1, "validator"));
    let written = incremental("", &[], &files).unwrap().files;
    assert_eq!(app(&written, "sei.mode"), "\"validator\"");
    assert_eq!(app(&written, "sei.version"), "1");
}

/// 26.
#[test]
fn s26_a_version_above_ours_is_refused() {
    let mut files = full("full", &[]).unwrap().files;
    files.app = files.app.replace("  version = 1\n", "  version = 3\n");
    let report = validate(&files, &host()).unwrap();
    assert_eq!((report.valid, report.version), (false, 3));
    assert_eq!(errors(&report.diagnostics), ["version"]);
    assert_eq!(errors(&refused(incremental("", &[], &files))), ["version"]);
}

/// Scenario 27: another program has sorted the file and quoted it otherwise. Nothing of it is lost; its order is not ours to
/// change, since nothing of ours takes it away.
#[test]
fn s27_files_of_another_writer_keep_their_peers_and_their_order() {
    let mut files = full("full", &[]).unwrap().files;
    let mut lines: Vec<String> = files.config.lines().map(|line| line.trim().replace('"', "'")).collect();
    lines = lines
        .iter()
        .map(|line| {
            line.replace(
                "persistent-peers = ''",
                "persistent-peers = '34750f98bd59fcfc946da45aaabe933be154a4b5@b:1'",
            )
        })
        .collect();
    files.config = lines.join("\n") + "\n";
    let resolved = incremental("", &[("network.p2p.send_rate", "1000")], &files).unwrap();
    assert_eq!(
        changed(&files.config, &resolved.files.config),
        [("send-rate = 20971520", "send-rate = 1000")]
    );
    assert_eq!(
        config(&resolved.files, "p2p.persistent-peers"),
        "'34750f98bd59fcfc946da45aaabe933be154a4b5@b:1'"
    );
}

/// 28.
#[test]
fn s28_a_quoted_number_is_read() {
    let mut files = full("full", &[]).unwrap().files;
    files.config = files.config.replace("fetchers = 2", "fetchers = \"2\"");
    assert!(validate(&files, &host()).unwrap().valid);
    files.config =
        files.config.replace("pex = true", "pex = \"true\"").replace("size = 5000", "size = 7000.0");
    let resolved = incremental("", &[("state_sync.fetchers", "3")], &files).unwrap();
    assert_eq!(config(&resolved.files, "statesync.fetchers"), "3");
    assert_eq!(config(&resolved.files, "mempool.size"), "7000.0");
    files.config = files.config.replace("fetchers = \"2\"", "fetchers = \"\"");
    let error = validate(&files, &host()).unwrap_err().to_string();
    assert_eq!(error, "config.toml: statesync.fetchers is not a whole number; it takes a value of kind int");
}

/// 30.
#[test]
fn s30_files_are_judged_with_version_mode_and_findings() {
    let mut files = full("archive", &[]).unwrap().files;
    files.app = files.app.replace("minimum-gas-prices = \"0.01usei\"", "minimum-gas-prices = \"\"");
    let report = serde_json::to_value(validate(&files, &host()).unwrap()).unwrap();
    assert_eq!(report["valid"], false);
    assert_eq!(report["version"], 1);
    assert_eq!(report["mode"], "archive");
    assert_eq!(report["diagnostics"].as_array().unwrap().len(), 1);
    assert_eq!(report["diagnostics"][0]["severity"], "ERROR");
    assert_eq!(report["diagnostics"][0]["field"], "chain.min_gas_prices");
}

#[test]
fn a_label_that_is_no_mode_is_told_and_not_replaced() {
    let mut files = full("full", &[]).unwrap().files;
    files.app = files.app.replace("  mode = \"full\"", "  mode = \"fool\"");
    let report = validate(&files, &host()).unwrap();
    assert_eq!((report.valid, report.mode.as_str()), (false, "fool"));
    assert_eq!(errors(&report.diagnostics), ["mode"]);
    assert_eq!(incremental("full", &[], &files).unwrap().mode.name(), "full");
}

#[test]
fn a_mode_that_only_seid_was_told_is_noticed() {
    let mut files = full("full", &[]).unwrap().files;
    files.config = files.config.replace("mode = \"full\"", "mode = \"validator\"");
    let report = validate(&files, &host()).unwrap();
    assert_eq!((report.valid, report.mode.as_str()), (true, "full"));
    assert_eq!(warnings(&report.diagnostics), ["mode"]);
    let archive = full("archive", &[]).unwrap().files;
    assert_eq!(validate(&archive, &host()).unwrap().diagnostics, []);
}

#[test]
fn what_seid_init_wrote_can_be_changed_and_nothing_of_it_is_lost() {
    let before = seid_init();
    let report = validate(&before, &host()).unwrap();
    assert!(report.valid, "{report:?}");
    let resolved = incremental("validator", &[("storage.pruning", "everything")], &before).unwrap();
    let files = &resolved.files;
    // seid prefers what stands there, so the change is made there too.
    assert_eq!(app(files, "iavl.pruning"), "\"everything\"");
    assert_eq!(app(files, "pruning"), "\"everything\"");
    assert_eq!(config(files, "mode"), "\"validator\"");
    assert_eq!(unknown_keys(files).unwrap(), unknown_keys(&before).unwrap());
    assert!(unknown_keys(files).unwrap().contains(&(File::App, "admin_server.admin_enabled".into())));
    assert!(unknown_keys(files).unwrap().contains(&(File::App, "state-commit.flatkv".into())));
    for (before, after) in [(&before.config, &files.config), (&before.app, &files.app)] {
        for comment in before.lines().filter(|line| line.trim_start().starts_with('#')) {
            assert!(after.contains(comment), "{comment}");
        }
    }
    // What the file lacked is as the mode has it, not zero.
    assert_eq!(app(files, "receipt-store.tx-index-backend"), "\"pebbledb\"");
    assert_eq!(value(files, File::App, "index-events").as_deref(), Some("[]"));
}

#[test]
fn spelling_in_capitals_is_the_same_key() {
    let mut files = full("full", &[]).unwrap().files;
    files.config =
        files.config.replace("[mempool]\n", "[MemPool]\n").replace("  size = 5000", "  Size = 6000");
    let resolved = incremental("", &[("mempool.size", "7000")], &files).unwrap();
    assert_eq!(config(&resolved.files, "MemPool.Size"), "7000");
    assert_eq!(value(&resolved.files, File::Config, "mempool.size"), None);
    assert!(!resolved.files.config.contains("[mempool]"));
}

#[test]
fn a_value_of_another_kind_is_named_with_its_place() {
    let files = full("full", &[]).unwrap().files;
    let broken = |from: &str, to: &str| {
        let files = Files { config: files.config.replace(from, to), app: files.app.clone() };
        validate(&files, &host()).unwrap_err().to_string()
    };
    assert_eq!(
        broken("pex = true", "pex = 1"),
        "config.toml: p2p.pex is an integer; it takes a value of kind bool"
    );
    assert_eq!(
        broken("dial-timeout = \"3s\"", "dial-timeout = \"soon\""),
        "config.toml: p2p.dial-timeout is \"soon\"; it takes a value of kind duration"
    );
    assert_eq!(broken("[p2p]", "[x]\n[[p2p]]"), "config.toml: p2p is not a table; write it as [p2p]");
}

#[test]
fn a_key_that_was_missing_is_added_where_it_belongs() {
    let before = full("full", &[]).unwrap().files;
    let mut files = incremental("", &[("chain.index_events", "a")], &before).unwrap().files;
    assert!(
        files.app.contains("\ninter-block-cache = true\nindex-events = [\"a\"]\niavl-disable-fastnode"),
        "{}",
        files.app
    );
    files.config =
        before.config.replace("  laddr = \"tcp://0.0.0.0:26656\"\n", "").replace("  upnp = false\n", "");
    let written = incremental("", &[], &files).unwrap().files;
    assert!(
        written.config.contains("\n  blocksync-peers = \"\"\n  upnp = false\n  max-connections = 100\n"),
        "{}",
        written.config
    );
    assert_eq!(config(&written, "p2p.laddr"), "\"tcp://0.0.0.0:26656\"");
}
