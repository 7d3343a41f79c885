//! Changes on a running node.

use chain::config::{ConfigError, reload};

use crate::fixture::{changed, errors, full, host, overrides, rejected};

#[test]
fn reload_accepts_reloadable_settings_only() {
    let before = full("full", &[]).unwrap().files;
    let try_reload = |pairs: &[(&str, &str)]| reload(&overrides(pairs), &before, &host());
    let after = try_reload(&[("logging.level", "debug")]).unwrap().files;
    assert_eq!(changed(&before.config, &after.config), [("log-level = \"info\"", "log-level = \"debug\"")]);
    assert_eq!(after.app, before.app);
    let error =
        try_reload(&[("storage.db_backend", "x"), ("mempool.size", "1"), ("evm.slow", "yes")]).unwrap_err();
    assert_eq!(error, ConfigError::NotReloadable("evm.slow, storage.db_backend".into()));
    assert_eq!(
        try_reload(&[("nothing", "x"), ("storage.db_backend", "x")]).unwrap_err(),
        ConfigError::UnknownKey("nothing".into())
    );
    assert_eq!(try_reload(&[]).unwrap_err(), ConfigError::EmptyReload);
    assert_eq!(errors(&rejected(try_reload(&[("logging.level", "loud")]))), ["logging.level"]);
}

#[test]
fn reload_accepts_lists() {
    let before = full("full", &[]).unwrap().files;
    let after = reload(&overrides(&[("evm.deny_list", "a,b")]), &before, &host()).unwrap().files;
    assert_eq!(changed(&before.app, &after.app), [("  deny_list = []", "  deny_list = [\"a\", \"b\"]")]);
}

#[test]
fn reload_adds_requested_keys_only() {
    let mut before = full("full", &[]).unwrap().files;
    before.config = before.config.replace("  lag-threshold = 300\n", "").replace("  pex = true\n", "");
    let fields = overrides(&[("network.rpc.lag_threshold", "7")]);
    let after = reload(&fields, &before, &host()).unwrap().files;
    assert!(
        after.config.contains("\n  pprof-laddr = \"\"\n  lag-threshold = 7\n  timeout-read"),
        "{}",
        after.config
    );
    assert!(!after.config.contains("pex"));
}
