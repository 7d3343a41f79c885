//! Non-incremental intents.

use chain::config::table::{self, File};
use chain::config::{Mode, snapshot_generation, validate};
use serde_json::Value as Json;

use crate::fixture::{app, config, errors, full, host, rejected, value, warnings};

/// Field list of the reference library, with the defaults of each mode.
pub fn reference() -> Json {
    serde_json::from_str(include_str!("../data/sei-config-fields.json")).unwrap()
}

/// Formats a reference default as a TOML literal.
fn literal(field: &Json, value: &Json) -> String {
    match value {
        Json::Number(number) if field["kind"] == "float64" => format!("{:?}", number.as_f64().unwrap()),
        Json::Array(entries) => {
            format!("[{}]", entries.iter().map(Json::to_string).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn defaults_match_reference_in_every_mode() {
    for mode in Mode::ALL {
        let resolved = full(mode.name(), &[]).unwrap();
        assert_eq!(resolved.findings, [], "{mode}");
        let mut seen = 0;
        for field in reference()["fields"].as_array().unwrap() {
            let Some(file) = field["file"].as_str() else { continue };
            let file = if file == "config.toml" { File::Config } else { File::App };
            let path = field["path"].as_str().unwrap();
            let written = value(&resolved.files, file, path);
            let computed = field["computed"].get(mode.name()).and_then(Json::as_str);
            let expected = match (computed, &field["defaults"][mode.name()]) {
                (Some(rule), _) if rule.starts_with("host name") => Some("\"node-0\"".into()),
                (Some("clamp(2*cpus,10,128)"), _) => Some("10".into()),
                (Some("min(64,2*cpus)"), _) => Some("8".into()),
                (Some(rule), _) => panic!("unknown rule {rule}"),
                (None, Json::Null) => None,
                (None, default) => Some(literal(field, default)),
            };
            assert_eq!(written, expected, "{mode}: {path}");
            seen += usize::from(written.is_some());
        }
        // The other lines are two constants and two copies.
        let lines = |text: &str| text.lines().filter(|line| line.contains(" = ")).count();
        let all = lines(&resolved.files.config) + lines(&resolved.files.app);
        assert_eq!(all, seen + 4, "{mode}");
        let report = validate(&resolved.files, &host()).unwrap();
        assert!(report.valid && report.diagnostics.is_empty() && report.mode == mode.name(), "{report:?}");
    }
}

#[test]
fn archive_is_full_for_seid_and_keeps_history() {
    let files = full("archive", &[]).unwrap().files;
    assert_eq!(config(&files, "mode"), "\"full\"");
    assert_eq!(app(&files, "sei.mode"), "\"archive\"");
    assert_eq!(app(&files, "sei.version"), "1");
    assert_eq!(app(&files, "state-store.ss-keep-recent"), "0");
    assert_eq!(app(&files, "evm.max_trace_lookback_blocks"), "-1");
    assert_eq!(app(&files, "min-retain-blocks"), "0");
}

#[test]
fn validator_disables_query_apis() {
    let files = full("validator", &[]).unwrap().files;
    assert_eq!(config(&files, "tx-index.indexer"), "[\"null\"]");
    for path in [
        "api.enable",
        "grpc.enable",
        "grpc-web.enable",
        "evm.http_enabled",
        "evm.ws_enabled",
        "state-store.ss-enable",
    ] {
        assert_eq!(app(&files, path), "false", "{path}");
    }
    assert_eq!(app(&files, "pruning"), "\"nothing\"");
}

#[test]
fn seed_accepts_many_peers() {
    let files = full("seed", &[]).unwrap().files;
    assert_eq!(config(&files, "p2p.max-connections"), "1000");
    assert_eq!(config(&files, "rpc.laddr"), "\"tcp://127.0.0.1:26657\"");
    assert_eq!(config(&files, "p2p.laddr"), "\"tcp://127.0.0.1:26656\"");
}

#[test]
fn full_node_with_snapshot_generation() {
    let preset = snapshot_generation(5);
    let pairs: Vec<(&str, &str)> = preset.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let resolved = full("full", &pairs).unwrap();
    let files = resolved.files;
    assert_eq!(resolved.findings, []);
    assert_eq!(app(&files, "state-sync.snapshot-interval"), "2000");
    assert_eq!(app(&files, "state-sync.snapshot-keep-recent"), "5");
    assert_eq!(app(&files, "pruning-keep-recent"), "\"50000\"");
    assert_eq!(app(&files, "pruning-keep-every"), "\"0\"");
    assert_eq!(app(&files, "min-retain-blocks"), "50000");
    assert_eq!(config(&files, "p2p.max-connections"), "500");
    assert_eq!(config(&files, "p2p.send-rate"), "20971520");
    assert_eq!(config(&files, "p2p.recv-rate"), "20971520");
    assert_eq!(app(&files, "pruning"), "\"custom\"");
    assert_eq!(app(&files, "pruning-interval"), "\"10\"");
}

#[test]
fn archive_with_snapshots_keeps_pruning_off() {
    let keys = [("storage.snapshot_interval", "2000"), ("storage.snapshot_keep_recent", "5")];
    let files = full("archive", &keys).unwrap().files;
    assert_eq!(app(&files, "pruning"), "\"nothing\"");
    assert_eq!(app(&files, "state-sync.snapshot-interval"), "2000");
}

#[test]
fn seed_with_snapshots_is_rejected() {
    let findings = rejected(full("seed", &[("storage.snapshot_interval", "2000")]));
    // The reference reports the first only; the second keeps seid from starting.
    assert_eq!(errors(&findings), ["storage", "storage.snapshot_interval"]);
}

#[test]
fn validator_serving_evm_gets_a_warning() {
    let resolved = full("validator", &[("evm.http_enabled", "true")]).unwrap();
    assert_eq!(warnings(&resolved.findings), ["evm"]);
    assert_eq!(app(&resolved.files, "evm.http_enabled"), "true");
}

#[test]
fn state_sync_requires_servers_and_trusted_header() {
    let findings = rejected(full("full", &[("state_sync.enable", "true")]));
    let missing = ["state_sync.rpc_servers", "state_sync.trust_height", "state_sync.trust_hash"];
    assert_eq!(errors(&findings), missing);
    let complete = [
        ("state_sync.enable", "true"),
        ("state_sync.rpc_servers", "a,b"),
        ("state_sync.trust_height", "1000"),
        ("state_sync.trust_hash", "0AFF"),
    ];
    let files = full("full", &complete).unwrap().files;
    assert_eq!(config(&files, "statesync.rpc-servers"), "\"a,b\"");
    for (key, value) in [
        ("state_sync.trust_hash", "xy"),
        ("state_sync.trust_hash", "abc"),
        ("state_sync.trust_period", "0s"),
        ("state_sync.fetchers", "0"),
        ("state_sync.backfill_blocks", "-1"),
        ("state_sync.rpc_servers", "a"),
    ] {
        let mut pairs = complete.to_vec();
        pairs.retain(|(other, _)| *other != key);
        pairs.push((key, value));
        assert_eq!(errors(&rejected(full("full", &pairs))), [key]);
    }
    let by_peers = [("state_sync.use_p2p", "true"), ("state_sync.rpc_servers", "")];
    let mut pairs = complete.to_vec();
    pairs.retain(|(key, _)| *key != "state_sync.rpc_servers");
    pairs.extend(by_peers);
    assert_eq!(config(&full("full", &pairs).unwrap().files, "statesync.rpc-servers"), "\"\"");
}

#[test]
fn disabling_metrics_changes_both_files() {
    let files = full("full", &[("metrics.enabled", "false")]).unwrap().files;
    assert_eq!(app(&files, "telemetry.enabled"), "false");
    assert_eq!(config(&files, "instrumentation.prometheus"), "false");
}

#[test]
fn chain_id_override_has_no_effect_and_warns() {
    let plain = full("full", &[]).unwrap();
    let resolved = full("full", &[("chain.chain_id", "x")]).unwrap();
    assert_eq!(resolved.files, plain.files);
    assert_eq!(warnings(&resolved.findings), ["chain.chain_id"]);
}

#[test]
fn mode_override_changes_label_only() {
    let mut files = full("full", &[("mode", "seed")]).unwrap().files;
    assert_eq!(config(&files, "mode"), "\"seed\"");
    assert_eq!(app(&files, "sei.mode"), "\"seed\"");
    files.config = files.config.replace("mode = \"seed\"", "mode = \"full\"");
    files.app = files.app.replace("mode = \"seed\"", "mode = \"full\"");
    assert_eq!(files, full("full", &[]).unwrap().files);
}

/// The result does not depend on existing files: peers and unknown keys are removed.
#[test]
fn full_intent_ignores_existing_files() {
    let fresh = full("full", &[]).unwrap().files;
    let mut old = fresh.clone();
    old.config = old.config.replace("persistent-peers = \"\"", "persistent-peers = \"a@b:1\"\n  foreign = 1");
    let intent = chain::config::Intent { mode: "full".into(), ..Default::default() };
    let files = chain::config::resolve(&intent, Some(&old), &host()).unwrap().files;
    assert_eq!(files, fresh);
    assert_eq!(config(&files, "p2p.persistent-peers"), "\"\"");
    assert_eq!(value(&files, File::Config, "p2p.foreign"), None);
}

#[test]
fn workers_follow_processors_and_moniker_defaults() {
    for (processors, pool, workers) in [(1, "2", "10"), (8, "16", "16"), (32, "64", "64"), (100, "64", "128")]
    {
        let host = chain::config::Host { name: String::new(), processors };
        for (mode, workers) in
            [("validator", workers), ("seed", workers), ("full", "500"), ("archive", "500")]
        {
            let intent = chain::config::Intent { mode: mode.into(), ..Default::default() };
            let files = chain::config::resolve(&intent, None, &host).unwrap().files;
            assert_eq!(app(&files, "evm.worker_pool_size"), pool);
            assert_eq!(app(&files, "evm.max_concurrent_simulation_calls"), pool);
            assert_eq!(app(&files, "concurrency-workers"), workers);
            assert_eq!(config(&files, "moniker"), "\"anonymous\"");
        }
    }
}

#[test]
fn line_order_matches_reference() {
    let reference = reference();
    for (file, name) in [(File::Config, "config.toml"), (File::App, "app.toml")] {
        let mut expected: Vec<(u64, &str)> = Vec::new();
        for field in reference["fields"].as_array().unwrap() {
            if field["file"] == name {
                expected.push((field["order"].as_u64().unwrap(), field["path"].as_str().unwrap()));
            }
            for also in
                field["alsoWritten"].as_array().into_iter().flatten().filter(|also| also["file"] == name)
            {
                expected.push((also["order"].as_u64().unwrap(), also["path"].as_str().unwrap()));
            }
        }
        for constant in reference["constants"].as_array().unwrap().iter().filter(|one| one["file"] == name) {
            expected.push((constant["order"].as_u64().unwrap(), constant["path"].as_str().unwrap()));
        }
        expected.sort_unstable();
        let lines: Vec<&str> = table::lines(file).iter().map(|line| line.path).collect();
        assert_eq!(lines, expected.iter().map(|(_, path)| *path).collect::<Vec<_>>(), "{name}");
    }
    let text = full("validator", &[]).unwrap().files.app;
    assert!(text.starts_with("minimum-gas-prices = \"0.01usei\"\npruning = \"nothing\"\n"), "{text}");
    assert!(text.contains("\n\n[telemetry]\n  service-name = \"\"\n"), "{text}");
    assert!(text.ends_with("\n[sei]\n  mode = \"validator\"\n  version = 1\n"), "{text}");
}
