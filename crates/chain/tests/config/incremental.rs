//! Incremental intents and validation of existing files.

use chain::config::table::File;
use chain::config::{ConfigError, Files, Intent, resolve, unknown_keys, validate};

use crate::fixture::{app, changed, config, errors, full, host, incremental, rejected, value, warnings};

/// Abridged output of `seid init` with everything that differs from our rendering.
const SEID_CONFIG: &str = include_str!("../data/seid-init-config.toml");
const SEID_APP: &str = include_str!("../data/seid-init-app.toml");

fn seid_init() -> Files {
    Files { config: SEID_CONFIG.into(), app: SEID_APP.into() }
}

#[test]
fn incremental_intent_changes_requested_key_only() {
    for mode in ["validator", "full", "seed", "archive"] {
        let before = full(mode, &[]).unwrap().files;
        let resolved = incremental("", &[("evm.http_port", "9999")], &before).unwrap();
        assert_eq!(resolved.mode.name(), mode);
        assert_eq!(resolved.files.config, before.config);
        assert_eq!(changed(&before.app, &resolved.files.app), [("  http_port = 8545", "  http_port = 9999")]);
    }
}

#[test]
fn incremental_mode_change_updates_label_only() {
    let before = full("full", &[]).unwrap().files;
    let resolved = incremental("validator", &[], &before).unwrap();
    assert_eq!(
        changed(&before.config, &resolved.files.config),
        [("mode = \"full\"", "mode = \"validator\"")]
    );
    assert_eq!(changed(&before.app, &resolved.files.app), [("  mode = \"full\"", "  mode = \"validator\"")]);
    assert_eq!(warnings(&resolved.findings), ["evm"]);
    assert_eq!(app(&resolved.files, "evm.http_enabled"), "true");
    assert_eq!(errors(&rejected(incremental("bogus", &[], &before))), ["mode"]);
}

#[test]
fn incremental_intent_without_files_fails() {
    let intent = Intent { incremental: true, ..Intent::default() };
    assert_eq!(resolve(&intent, None, &host()), Err(ConfigError::MissingFiles));
    let broken = Files { config: "a = \"1\"\nb == 2".into(), app: String::new() };
    let error = incremental("", &[], &broken).unwrap_err();
    assert_eq!(error.category(), "file");
    assert!(error.to_string().starts_with("config.toml is not valid TOML: line 2: "), "{error}");
}

#[test]
fn missing_label_falls_back_to_seid_mode() {
    let mut files = full("validator", &[]).unwrap().files;
    files.app.truncate(files.app.find("\n[sei]").unwrap());
    let report = validate(&files, &host()).unwrap();
    assert_eq!((report.valid, report.version, report.mode.as_str()), (true, 1, "validator"));
    let written = incremental("", &[], &files).unwrap().files;
    assert_eq!(app(&written, "sei.mode"), "\"validator\"");
    assert_eq!(app(&written, "sei.version"), "1");
}

#[test]
fn unsupported_version_in_files_is_rejected() {
    let mut files = full("full", &[]).unwrap().files;
    files.app = files.app.replace("  version = 1\n", "  version = 3\n");
    let report = validate(&files, &host()).unwrap();
    assert_eq!((report.valid, report.version), (false, 3));
    assert_eq!(errors(&report.diagnostics), ["version"]);
    assert_eq!(errors(&rejected(incremental("", &[], &files))), ["version"]);
}

/// Another program sorted the file and changed its quotes. Content and order are preserved.
#[test]
fn foreign_formatting_and_order_are_preserved() {
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

#[test]
fn quoted_number_is_accepted() {
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
    assert_eq!(error, "config.toml: statesync.fetchers is not an integer; expected int");
}

#[test]
fn validation_reports_version_mode_and_diagnostics() {
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
fn unknown_mode_label_is_reported_and_kept() {
    let mut files = full("full", &[]).unwrap().files;
    files.app = files.app.replace("  mode = \"full\"", "  mode = \"fool\"");
    let report = validate(&files, &host()).unwrap();
    assert_eq!((report.valid, report.mode.as_str()), (false, "fool"));
    assert_eq!(errors(&report.diagnostics), ["mode"]);
    assert_eq!(incremental("full", &[], &files).unwrap().mode.name(), "full");
}

#[test]
fn conflicting_seid_mode_gets_a_warning() {
    let mut files = full("full", &[]).unwrap().files;
    files.config = files.config.replace("mode = \"full\"", "mode = \"validator\"");
    let report = validate(&files, &host()).unwrap();
    assert_eq!((report.valid, report.mode.as_str()), (true, "full"));
    assert_eq!(warnings(&report.diagnostics), ["mode"]);
    let archive = full("archive", &[]).unwrap().files;
    assert_eq!(validate(&archive, &host()).unwrap().diagnostics, []);
}

#[test]
fn seid_init_files_can_be_changed_without_losses() {
    let before = seid_init();
    let report = validate(&before, &host()).unwrap();
    assert!(report.valid, "{report:?}");
    let resolved = incremental("validator", &[("storage.pruning", "everything")], &before).unwrap();
    let files = &resolved.files;
    // This key takes precedence in seid, so it is changed as well.
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
    // Missing keys get the defaults of the mode, not zero.
    assert_eq!(app(files, "receipt-store.tx-index-backend"), "\"pebbledb\"");
    assert_eq!(value(files, File::App, "index-events").as_deref(), Some("[]"));
}

#[test]
fn keys_match_case_insensitively() {
    let mut files = full("full", &[]).unwrap().files;
    files.config =
        files.config.replace("[mempool]\n", "[MemPool]\n").replace("  size = 5000", "  Size = 6000");
    let resolved = incremental("", &[("mempool.size", "7000")], &files).unwrap();
    assert_eq!(config(&resolved.files, "MemPool.Size"), "7000");
    assert_eq!(value(&resolved.files, File::Config, "mempool.size"), None);
    assert!(!resolved.files.config.contains("[mempool]"));
}

#[test]
fn wrong_type_error_names_file_and_key() {
    let files = full("full", &[]).unwrap().files;
    let broken = |from: &str, to: &str| {
        let files = Files { config: files.config.replace(from, to), app: files.app.clone() };
        validate(&files, &host()).unwrap_err().to_string()
    };
    assert_eq!(broken("pex = true", "pex = 1"), "config.toml: p2p.pex is an integer; expected bool");
    assert_eq!(
        broken("dial-timeout = \"3s\"", "dial-timeout = \"soon\""),
        "config.toml: p2p.dial-timeout is \"soon\"; expected duration"
    );
    assert_eq!(broken("[p2p]", "[x]\n[[p2p]]"), "config.toml: p2p is not a table; write it as [p2p]");
}

#[test]
fn missing_key_is_inserted_in_table_order() {
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
