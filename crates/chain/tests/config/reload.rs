//! Changes on a node that runs.

use chain::config::{ConfigError, reload};

use crate::node::{changed, errors, full, host, overrides, refused};

/// 29.
#[test]
fn s29_only_what_may_be_reloaded_is() {
    let before = full("full", &[]).unwrap().files;
    let ask = |pairs: &[(&str, &str)]| reload(&overrides(pairs), &before, &host());
    let after = ask(&[("logging.level", "debug")]).unwrap().files;
    assert_eq!(changed(&before.config, &after.config), [("log-level = \"info\"", "log-level = \"debug\"")]);
    assert_eq!(after.app, before.app);
    let error = ask(&[("storage.db_backend", "x"), ("mempool.size", "1"), ("evm.slow", "yes")]).unwrap_err();
    assert_eq!(error, ConfigError::NotReloadable("evm.slow, storage.db_backend".into()));
    assert_eq!(
        ask(&[("nothing", "x"), ("storage.db_backend", "x")]).unwrap_err(),
        ConfigError::UnknownKey("nothing".into())
    );
    assert_eq!(ask(&[]).unwrap_err(), ConfigError::NothingToReload);
    assert_eq!(errors(&refused(ask(&[("logging.level", "loud")]))), ["logging.level"]);
}

#[test]
fn lists_can_be_reloaded() {
    let before = full("full", &[]).unwrap().files;
    let after = reload(&overrides(&[("evm.deny_list", "a,b")]), &before, &host()).unwrap().files;
    assert_eq!(changed(&before.app, &after.app), [("  deny_list = []", "  deny_list = [\"a\", \"b\"]")]);
}

#[test]
fn a_reload_adds_nothing_that_was_not_asked_for() {
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
