//! Validation rules, including settings that would keep seid from starting.

use chain::config::{ConfigError, Intent, check_intent, resolve};

use crate::fixture::{errors, full, host, overrides, rejected, warnings};

#[test]
fn unsupported_target_version_is_rejected() {
    let intent = Intent { mode: "full".into(), target_version: 7, ..Intent::default() };
    assert_eq!(errors(&check_intent(&intent)), ["targetVersion"]);
    assert_eq!(errors(&rejected(resolve(&intent, None, &host()))), ["version"]);
    assert_eq!(errors(&rejected(full("full", &[("version", "2")]))), ["version"]);
    assert_eq!(errors(&rejected(full("full", &[("version", "0")]))), ["version"]);
    let negative = Intent { mode: "full".into(), target_version: -1, ..Intent::default() };
    assert_eq!(resolve(&negative, None, &host()).unwrap().version, 1);
}

/// seid was verified not to start with each of these; see `rejected_settings_keep_seid_from_starting`.
#[test]
fn settings_that_stop_seid_are_rejected_with_a_fix() {
    /// Mode, overrides, reported field, part of the message.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);
    let cases: [Case<'_>; 25] = [
        (
            "validator",
            &[("storage.snapshot_interval", "2000")],
            "storage.snapshot_interval",
            "state_store.enable to true",
        ),
        ("validator", &[("storage.pruning", "custom")], "storage.pruning_interval", "above 0"),
        ("full", &[("storage.pruning_interval", "0")], "storage.pruning_interval", "above 0"),
        ("full", &[("storage.pruning_keep_every", "1")], "storage.pruning_interval", "set it to 0"),
        (
            "full",
            &[("storage.pruning_keep_recent", "many")],
            "storage.pruning_keep_recent",
            "number of blocks",
        ),
        ("full", &[("storage.pruning_keep_every", "-1")], "storage.pruning_keep_every", "number of blocks"),
        ("full", &[("storage.pruning_interval", "")], "storage.pruning_interval", "number of blocks"),
        ("full", &[("logging.level", "trace")], "logging.level", "debug, info, warn, error"),
        ("full", &[("logging.level", "")], "logging.level", "debug, info, warn, error"),
        ("full", &[("chain.min_gas_prices", "free")], "chain.min_gas_prices", "0.01usei"),
        ("full", &[("chain.min_gas_prices", "0.01usei,1usei")], "chain.min_gas_prices", "duplicate price"),
        (
            "full",
            &[("chain.min_gas_prices", "0.1234567890123456789usei")],
            "chain.min_gas_prices",
            "0.01usei",
        ),
        ("full", &[("tx_index.indexer", "elastic")], "tx_index.indexer", "kv, null, psql"),
        ("full", &[("tx_index.indexer", "kv,KV")], "tx_index.indexer", "list each once"),
        ("full", &[("tx_index.indexer", "psql")], "tx_index.psql_conn", "set the connection string"),
        (
            "full",
            &[("storage.receipt_store.backend", "leveldb")],
            "storage.receipt_store.backend",
            "pebbledb",
        ),
        (
            "full",
            &[("storage.state_commit.write_mode", "evm_only")],
            "storage.state_commit.write_mode",
            "cosmos_only",
        ),
        (
            "full",
            &[("network.p2p.persistent_peers", "a.b:26656")],
            "network.p2p.persistent_peers",
            "<node id>@<host>",
        ),
        (
            "full",
            &[("network.p2p.bootstrap_peers", "ab@c:1")],
            "network.p2p.bootstrap_peers",
            "<node id>@<host>",
        ),
        ("full", &[("network.p2p.blocksync_peers", "x")], "network.p2p.blocksync_peers", "<node id>@<host>"),
        ("full", &[("network.p2p.private_peer_ids", "x")], "network.p2p.private_peer_ids", "40 hexadecimal"),
        (
            "full",
            &[("network.p2p.unconditional_peer_ids", "x")],
            "network.p2p.unconditional_peer_ids",
            "40 hexadecimal",
        ),
        (
            "full",
            &[("network.p2p.listen_address", "0.0.0.0")],
            "network.p2p.listen_address",
            "tcp://0.0.0.0:26656",
        ),
        ("full", &[("priv_validator.listen_addr", "signer")], "priv_validator.listen_addr", "leave it empty"),
        ("full", &[("storage.db_backend", "rocksdb")], "storage.db_backend", "goleveldb"),
    ];
    for (mode, pairs, field, fix) in cases {
        let findings = rejected(full(mode, pairs));
        assert_eq!(errors(&findings), [field], "{pairs:?}");
        assert!(findings[0].message.contains(fix), "{pairs:?}: {}", findings[0].message);
    }
    let peers =
        "34750f98bd59fcfc946da45aaabe933be154a4b5@a.b:26656, 34750F98BD59FCFC946DA45AAABE933BE154A4B5@c,";
    for (key, value) in [
        ("network.p2p.persistent_peers", peers),
        ("network.p2p.private_peer_ids", "34750f98bd59fcfc946da45aaabe933be154a4b5"),
        ("network.p2p.listen_address", ":26656"),
        ("priv_validator.listen_addr", "tcp://127.0.0.1:26659"),
        ("logging.level", "WARN"),
        ("logging.level", "debug-4"),
        ("chain.min_gas_prices", "0.01usei,.5uatom"),
        ("chain.min_gas_prices", "1 usei"),
        ("tx_index.indexer", "NULL"),
        ("storage.receipt_store.backend", "parquet"),
    ] {
        assert_eq!(full("full", &[(key, value)]).unwrap().findings, [], "{key}={value}");
    }
}

#[test]
fn each_rule_rejects_its_field() {
    for (key, value) in [
        ("mode", ""),
        ("mode", "bogus"),
        ("chain.min_gas_prices", ""),
        ("chain.concurrency_workers", "-2"),
        ("network.rpc.max_open_connections", "-1"),
        ("network.rpc.max_subscription_clients", "-1"),
        ("network.rpc.max_subscriptions_per_client", "-1"),
        ("network.rpc.timeout_broadcast_tx_commit", "-1s"),
        ("network.rpc.max_body_bytes", "-1"),
        ("network.rpc.max_header_bytes", "-1"),
        ("network.p2p.flush_throttle_timeout", "-1s"),
        ("network.p2p.max_packet_msg_payload_size", "-1"),
        ("network.p2p.send_rate", "-1"),
        ("network.p2p.recv_rate", "-1"),
        ("consensus.unsafe_propose_timeout_override", "-1s"),
        ("consensus.unsafe_commit_timeout_override", "-1s"),
        ("consensus.create_empty_blocks_interval", "-1s"),
        ("consensus.peer_gossip_sleep_duration", "-1s"),
        ("consensus.double_sign_check_height", "-1"),
        ("mempool.size", "-1"),
        ("mempool.max_txs_bytes", "-1"),
        ("mempool.cache_size", "-1"),
        ("mempool.max_tx_bytes", "-1"),
        ("mempool.ttl_duration", "-1s"),
        ("mempool.ttl_num_blocks", "-1"),
        ("mempool.drop_utilisation_threshold", "1.1"),
        ("mempool.drop_utilisation_threshold", "-0.1"),
        ("storage.pruning", "some"),
        ("storage.state_commit.write_mode", "x"),
        ("storage.state_store.write_mode", "x"),
        ("storage.state_commit.read_mode", "x"),
        ("storage.state_store.read_mode", "x"),
        ("evm.http_port", "0"),
        ("evm.ws_port", "-1"),
        ("evm.http_port", "99999"),
        ("metrics.max_open_connections", "-1"),
        ("logging.format", "xml"),
        ("logging.format", ""),
    ] {
        assert_eq!(errors(&rejected(full("full", &[(key, value)]))), [key], "{key}={value}");
    }
    let resolved = full("full", &[("storage.state_store.backend", "sqlite")]).unwrap();
    assert_eq!(warnings(&resolved.findings), ["storage.state_store.backend"]);
    // Settings of disabled features are not validated.
    full("full", &[("evm.http_enabled", "false"), ("evm.http_port", "0")]).unwrap();
    full("full", &[("chain.concurrency_workers", "-1")]).unwrap();
}

#[test]
fn findings_are_json_in_rule_order() {
    let findings = rejected(full(
        "validator",
        &[("logging.format", "xml"), ("evm.ws_enabled", "true"), ("mempool.size", "-1"), ("mode", "x")],
    ));
    let fields: Vec<&str> = findings.iter().map(|finding| finding.field.as_str()).collect();
    assert_eq!(fields, ["mode", "mempool.size", "logging.format"]);
    let error = full("validator", &[("logging.format", "xml"), ("evm.ws_enabled", "true")]).unwrap_err();
    assert_eq!(error.category(), "invalid");
    let text = error.to_string();
    let json = text.strip_prefix("config validation failed: ").unwrap();
    let list: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(list[0]["severity"], "WARNING");
    assert_eq!(list[0]["field"], "evm");
    assert_eq!(list[1]["severity"], "ERROR");
    assert_eq!(list[1]["field"], "logging.format");
}

#[test]
fn override_without_effect_gets_a_warning() {
    let resolved = full("full", &[("evm.block_test.enabled", "true")]).unwrap();
    assert_eq!(warnings(&resolved.findings), ["evm.block_test.enabled"]);
}

#[test]
fn check_intent_reports_all_errors() {
    let intent = Intent {
        mode: "bogus".into(),
        overrides: overrides(&[("evm.http_port", "abc"), ("nothing", "1"), ("evm.slow", "yes")]),
        ..Intent::default()
    };
    assert_eq!(errors(&check_intent(&intent)), ["mode", "overrides.evm.http_port", "overrides.nothing"]);
    let missing = Intent::default();
    assert_eq!(errors(&check_intent(&missing)), ["mode"]);
    assert!(check_intent(&Intent { incremental: true, ..Intent::default() }).is_empty());
    assert!(matches!(resolve(&missing, None, &host()), Err(ConfigError::MissingMode)));
}
