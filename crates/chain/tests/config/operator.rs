//! Intents that the operator sends.

use chain::config::{Intent, check_intent, resolve, table};

use crate::fixture::{full, host, overrides};

#[test]
fn operator_intents_of_every_node_kind_resolve() {
    let snapshots = [("storage.snapshot_interval", "2000"), ("storage.snapshot_keep_recent", "5")];
    let replayer = [
        ("storage.state_commit.async_commit_buffer", "100"),
        ("storage.state_commit.memiavl.snapshot_keep_recent", "2"),
        ("storage.state_commit.memiavl.snapshot_min_time_interval", "3600"),
    ];
    let info = [("logging.level", "info")];
    let external = [("network.p2p.external_address", "a.b:26656")];
    for (mode, kind) in [
        ("full", &[][..]),
        ("archive", &[]),
        ("archive", &snapshots),
        ("full", &replayer),
        ("validator", &[]),
        ("validator", &external),
    ] {
        let intent =
            Intent { mode: mode.into(), overrides: overrides(&[&info, kind].concat()), ..Intent::default() };
        assert_eq!(check_intent(&intent), [], "{mode}");
        assert_eq!(resolve(&intent, None, &host()).unwrap().findings, [], "{mode}");
    }
}

/// Both functions reject exactly the same keys and values.
#[test]
fn check_intent_agrees_with_resolve() {
    let mut keys: Vec<String> = table::fields().map(|(field, _)| field.key.to_owned()).collect();
    keys.extend(["evm", "evm.nothing", "Mode"].map(String::from));
    for key in &keys {
        for value in ["", "1", "true", "1s", "a,b", "x", "-1", "1.5"] {
            let pairs = [(key.as_str(), value)];
            let intent = Intent { mode: "full".into(), overrides: overrides(&pairs), ..Intent::default() };
            let checked = check_intent(&intent).is_empty();
            let parsed = !matches!(full("full", &pairs), Err(error) if error.category() != "invalid");
            assert_eq!(checked, parsed, "{key}={value}");
        }
    }
}

#[test]
fn exposed_ports_depend_on_mode() {
    use chain::ports::{ALL, exposed};
    let names =
        |mode: &str| -> Vec<&str> { exposed(mode.parse().unwrap()).iter().map(|(name, _)| *name).collect() };
    assert_eq!(names("full"), ["evm-rpc", "evm-ws", "grpc", "rest", "p2p", "rpc", "metrics"]);
    assert_eq!(names("archive"), names("full"));
    assert_eq!(names("validator"), ["p2p", "metrics"]);
    assert!(names("seed").is_empty());
    assert_eq!(ALL.map(|(_, number)| number), [8545, 8546, 9090, 1317, 26656, 26657, 26660]);
    // Each port also occurs in the files.
    let files = full("full", &[]).unwrap().files;
    for (_, number) in ALL {
        let found = [&files.config, &files.app].iter().any(|text| {
            text.contains(&format!(":{number}\"")) || text.contains(&format!("_port = {number}\n"))
        });
        assert!(found, "{number}");
    }
}
