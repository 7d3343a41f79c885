//! Tasks that do not depend on chain formats: their effect on files and the seid process.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, TestResult};

use crate::fake_rpc;
use crate::fixture::{Fixture, TIMEOUT, free_port};

pub async fn await_condition_waits_for_height_or_sync(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let height = sidecar
        .submit(None, "await-condition", &json!({"condition": "height", "targetHeight": 5000}))
        .await?;
    let higher = sidecar
        .submit(None, "await-condition", &json!({"condition": "height", "targetHeight": 5001}))
        .await?;
    let caught = sidecar.submit(None, "await-condition", &json!({"condition": "catchingUp"})).await?;
    assert_eq!(sidecar.task(&height).await?["status"], "running", "the RPC does not respond yet");
    let _rpc = fake_rpc::serve(fixture.rpc, fake_rpc::synced_node).await?;
    for id in [&height, &caught] {
        assert_eq!(sidecar.wait_finished(id).await?["status"], "completed");
    }
    assert_eq!(sidecar.task(&higher).await?["status"], "running");
    for (params, error_part) in [
        (json!({}), "condition is required"),
        (json!({"condition": "weather"}), "unknown condition"),
        (json!({"condition": "height"}), "targetHeight must be above 0"),
        (json!({"condition": "height", "targetHeight": "5"}), "parsing params: "),
        (json!({"condition": "catchingUp", "action": "DANCE"}), "unknown action"),
    ] {
        let failed = sidecar.run_task("await-condition", &params).await?;
        assert!(
            failed["error"].as_str().is_some_and(|error| error.contains(error_part)),
            "{params}: {failed}"
        );
    }
    Ok(())
}

pub async fn reset_data_requires_stopped_node(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let data = fixture.home.join("data");
    fs::create_dir_all(data.join("blockstore.db"))?;
    fs::write(data.join("blockstore.db/1"), vec![0; 1000])?;
    fs::write(data.join("cs.wal"), vec![0; 234])?;
    fs::write(fixture.home.join(".sei-sidecar-statesync-done"), "")?;
    fs::write(fixture.home.join(".sei-sidecar-snapshot-done"), "")?;
    let running = fake_rpc::serve(fixture.rpc, fake_rpc::synced_node).await?;
    let refused = sidecar.run_task("reset-data", &json!({})).await?;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("seid is running")), "{refused}");
    assert!(data.join("blockstore.db/1").exists());
    running.abort();
    let _ = running.await;
    for bytes in [1234, 51] {
        let done = sidecar.run_task("reset-data", &json!({})).await?;
        assert_eq!(done["status"], "completed", "{done}");
        let wiped = done["result"]["wipedBytes"].as_i64().unwrap_or_default();
        assert!((bytes == 1234 && wiped == 1234) || (bytes != 1234 && wiped < 100), "{done}");
        let state: Value =
            serde_json::from_str(&fs::read_to_string(data.join("priv_validator_state.json"))?)?;
        assert_eq!(state, json!({"height": "0", "round": 0, "step": 0}));
        assert_eq!(fs::metadata(data.join("priv_validator_state.json"))?.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&data)?.count(), 1);
    }
    assert!(!fixture.home.join(".sei-sidecar-statesync-done").exists());
    assert!(fixture.home.join(".sei-sidecar-snapshot-done").exists());
    assert!(fixture.home.join("config/config.toml").exists());
    Ok(())
}

/// Download, hash check and marker of configure-genesis.
pub async fn configure_genesis_verifies_hash(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let path = fixture.home.join("config/genesis.json");
    let missing = sidecar.run_task("configure-genesis", &json!({})).await?;
    assert!(missing["error"].as_str().is_some_and(|error| error.contains("object not found")), "{missing}");
    fs::create_dir_all(fixture.objects.join("test-1"))?;
    fs::write(fixture.objects.join("test-1/genesis.json"), "{\"chain_id\":\"test-1\"}")?;
    let hash: String =
        Sha256::digest("{\"chain_id\":\"test-1\"}").iter().map(|byte| format!("{byte:02x}")).collect();
    let wrong =
        sidecar.run_task("configure-genesis", &json!({"expectedGenesisHash": "0".repeat(64)})).await?;
    assert!(wrong["error"].as_str().is_some_and(|error| error.contains(&hash)), "{wrong}");
    assert!(!path.exists() && !fixture.home.join(".sei-sidecar-genesis-done").exists());
    assert_eq!(fs::read_dir(fixture.home.join("config"))?.count(), 1, "only config.toml remains");
    let malformed = sidecar.run_task("configure-genesis", &json!({"expectedGenesisHash": "AB"})).await?;
    assert!(
        malformed["error"].as_str().is_some_and(|error| error.contains("lower-case hexadecimal")),
        "{malformed}"
    );
    let done = sidecar.run_task("configure-genesis", &json!({"expectedGenesisHash": hash})).await?;
    assert_eq!(done["result"], json!({"genesisHash": hash}), "{done}");
    assert_eq!(fs::read_to_string(&path)?, "{\"chain_id\":\"test-1\"}");
    let again = sidecar.run_task("configure-genesis", &json!({})).await?;
    assert_eq!(again["result"]["genesisHash"], json!(hash));
    let other =
        sidecar.run_task("configure-genesis", &json!({"expectedGenesisHash": "1".repeat(64)})).await?;
    assert_eq!(other["status"], "failed", "the marker does not replace the hash check: {other}");
    Ok(())
}

pub async fn discover_peers_changes_only_persistent_peers(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let config = fixture.home.join("config/config.toml");
    fs::write(
        &config,
        "# custom\n[p2p]\nladdr = \"a\" # here\npersistent-peers = \"\"\n\n[other]\nkept = true\n",
    )?;
    let (a, c) = (format!("{}@b:1", "0a".repeat(20)), format!("{}@d:2", "0c".repeat(20)));
    for (params, error_part) in [
        (json!({}), "at least one source"),
        (json!({"sources": [{"type": "static", "addresses": []}]}), "source 0: addresses"),
        (
            json!({"sources": [{"type": "static", "addresses": [a]}, {"type": "ec2Tags", "region": "r", "tags": {"a": "b"}}]}),
            "source 1: ec2Tags is not supported by this build",
        ),
        (json!({"sources": [{"type": "static", "addresses": [format!("{a},{c}")]}]}), "invalid peer"),
        (json!({"sources": [{"type": "static", "addresses": ["a@b:1"]}]}), "40 hexadecimal digits"),
        (
            json!({"sources": [{"type": "static", "addresses": [format!("{}@b:1", "0g".repeat(20))]}]}),
            "invalid peer",
        ),
        (
            json!({"sources": [{"type": "static", "addresses": [format!("{}@b c:1", "0a".repeat(20))]}]}),
            "invalid peer",
        ),
        (json!({"sources": [{"type": "dnsEndpoints", "endpoints": ["127.0.0.1/../x"]}]}), "invalid endpoint"),
        (
            json!({"sources": [{"type": "dnsEndpoints", "endpoints": ["127.9.9.9"]}]}),
            "no endpoint reported its node ID",
        ),
    ] {
        let failed = sidecar.run_task("discover-peers", &params).await?;
        assert!(
            failed["error"].as_str().is_some_and(|error| error.contains(error_part)),
            "{params}: {failed}"
        );
    }
    let sources = json!({"sources": [{"type": "static", "addresses": [a, c, a]}]});
    assert_eq!(sidecar.run_task("discover-peers", &sources).await?["result"], json!({"peers": 2}));
    let text = fs::read_to_string(&config)?;
    assert_eq!(
        text,
        format!(
            "# custom\n[p2p]\nladdr = \"a\" # here\npersistent-peers = \"{a},{c}\"\n\n[other]\nkept = true\n"
        )
    );
    Ok(())
}

pub async fn configure_state_sync_uses_rpc_servers(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let none = sidecar.run_task("configure-state-sync", &json!({})).await?;
    assert!(none["error"].as_str().is_some_and(|error| error.contains("no RPC servers")), "{none}");
    let server = format!("127.0.0.1:{}", fixture.rpc);
    let dead = sidecar.run_task("configure-state-sync", &json!({"rpcServers": [server]})).await?;
    assert!(dead["error"].as_str().is_some_and(|error| error.contains("no RPC server responded")), "{dead}");
    // Only host:port is accepted.
    let url =
        sidecar.run_task("configure-state-sync", &json!({"rpcServers": ["file:///etc/passwd"]})).await?;
    assert!(url["error"].as_str().is_some_and(|error| error.contains("expected host:port")), "{url}");
    let _rpc = fake_rpc::serve(fixture.rpc, fake_rpc::synced_node).await?;
    let other_port = free_port();
    let _other = fake_rpc::serve(other_port, fake_rpc::node_at(2, 5000)).await?;
    let other = format!("127.0.0.2:{other_port}");
    let params = json!({"rpcServers": [server, other], "trustPeriod": "168h0m0s", "backfillBlocks": 9});
    let done = sidecar.run_task("configure-state-sync", &params).await?;
    assert_eq!(done["status"], "completed", "{done}");
    let text = fs::read_to_string(fixture.home.join("config/config.toml"))?;
    for line in [
        "enable = true".to_owned(),
        "trust-height = 3000".into(),
        format!("trust-hash = \"{}\"", "CD".repeat(32)),
        format!("rpc-servers = \"{server},{other}\""),
        "use-local-snapshot = false".into(),
        "trust-period = \"168h0m0s\"".into(),
        "backfill-blocks = 9".into(),
    ] {
        assert!(text.contains(&line), "{line} is missing in\n{text}");
    }
    let again = sidecar.run_task("configure-state-sync", &params).await?["result"].clone();
    assert_eq!((&again["skipped"], &again["trustHeight"]), (&json!("already done"), &json!(3000)), "{again}");
    let other = sidecar.run_task("configure-state-sync", &json!({"useLocalSnapshot": true})).await?;
    assert!(other["result"]["doneWith"].is_object(), "{other}");
    Ok(())
}

/// One server could make the node trust a chain of its own.
pub async fn state_sync_requires_two_agreeing_servers(cx: Context) -> TestResult {
    /// Replaces the answer about blocks.
    fn with_block(id: u8, block: fn() -> Value) -> Box<dyn Fn(&str) -> Value + Send> {
        let node = fake_rpc::node_at(id, 5000);
        Box::new(move |path| if path.starts_with("/block?") { block() } else { node(path) })
    }
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let mut servers = Vec::new();
    for (host, respond) in [
        (1, Box::new(fake_rpc::node_at(1, 5000)) as Box<dyn Fn(&str) -> Value + Send>),
        (2, with_block(2, || json!({"block_id": {"hash": "EF".repeat(32)}}))),
        (3, with_block(3, || json!({}))),
        (4, Box::new(fake_rpc::node_at(4, 5000))),
        // On the host of the first one; the first one under another address; one with another height.
        (1, Box::new(fake_rpc::node_at(5, 5000))),
        (6, Box::new(fake_rpc::node_at(1, 5000))),
        (7, Box::new(fake_rpc::node_at(7, 9_000_000))),
    ] {
        let port = free_port();
        fake_rpc::serve(port, respond).await?;
        servers.push(format!("127.0.0.{host}:{port}"));
    }
    let [honest, forging, pruned, second, same_host, same_node, ahead] =
        [0, 1, 2, 3, 4, 5, 6].map(|index| servers[index].as_str());
    let dead = "127.0.0.1:1";
    let before = fs::read_to_string(fixture.home.join("config/config.toml"))?;
    for (servers, error_part) in [
        (vec![honest], "only 1 of 1 RPC servers confirmed block 3000"),
        (vec![honest, honest, &format!("http://{honest}/")], "only 1 of 1 RPC servers"),
        (vec![honest, same_host], "it has the same host as 127.0.0.1:"),
        (vec![honest, same_node], "it has the same node ID as 127.0.0.1:"),
        (vec![dead, honest], "only 1 of 1 RPC servers"),
        (vec![honest, pruned], "only 1 of 2 RPC servers"),
        (vec![honest, forging], "have different blocks at height 3000"),
        (vec![honest, second, forging], "have different blocks at height 3000"),
    ] {
        let failed = sidecar.run_task("configure-state-sync", &json!({"rpcServers": servers})).await?;
        assert!(
            failed["error"].as_str().is_some_and(|error| error.contains(error_part)),
            "{servers:?}: {failed}"
        );
    }
    assert_eq!(fs::read_to_string(fixture.home.join("config/config.toml"))?, before);
    // The first one alone does not choose the height.
    let agreed = json!({"rpcServers": [ahead, honest, dead, pruned, second]});
    let done = sidecar.run_task("configure-state-sync", &agreed).await?;
    assert_eq!(done["result"]["rpcServers"], json!([ahead, honest, second]), "{done}");
    assert_eq!(done["result"]["trustHeight"], json!(3000), "{done}");
    Ok(())
}

/// A caller cannot choose where the node's data is sent.
pub async fn result_export_goes_to_the_configured_bucket_only(cx: Context) -> TestResult {
    let unset = Fixture::new(&cx)?.start().await?;
    let failed = unset.run_task("result-export", &json!({"bucket": "b", "region": "r"})).await?;
    assert!(
        failed["error"]
            .as_str()
            .is_some_and(|error| error.contains("--result-export-bucket (SEI_RESULT_EXPORT_BUCKET)")),
        "{failed}"
    );
    let fixture = Fixture::new(&cx)?;
    let bucket = format!("file://{}", fixture.objects.display());
    let fixture = fixture
        .env("SEI_RESULT_EXPORT_BUCKET", &bucket)
        .env("SEI_RESULT_EXPORT_REGION", "r")
        .env("SEI_RESULT_EXPORT_PREFIX", "/results/");
    let sidecar = fixture.start().await?;
    let _rpc = fake_rpc::serve(fixture.rpc, |path| match path {
        "/status" => json!({"sync_info": {"latest_block_height": "1000", "catching_up": false}}),
        _ => json!({}),
    })
    .await?;
    for (params, name) in [
        (json!({"bucket": "other", "region": "r"}), "bucket"),
        (json!({"bucket": "file:///etc", "region": "r"}), "bucket"),
        (json!({"bucket": bucket, "region": "other"}), "region"),
        (json!({"prefix": "results/../../x"}), "prefix"),
        (json!({"rpcEndpoint": "http://169.254.169.254"}), "rpcEndpoint"),
    ] {
        let failed = sidecar.run_task("result-export", &params).await?;
        let expected = format!("{name} must be the one of the sidecar's settings: omit it");
        assert!(
            failed["error"].as_str().is_some_and(|error| error.starts_with(&expected)),
            "{params}: {failed}"
        );
    }
    // What an upstream client sends, if it is the same.
    let node = format!("http://127.0.0.1:{}", fixture.rpc);
    let same = json!({"bucket": bucket, "region": "r", "prefix": "results", "rpcEndpoint": node});
    let done = sidecar.run_task("result-export", &same).await?;
    assert_eq!(done["result"], json!({"pages": 1, "lastExportedHeight": 1000}), "{done}");
    assert!(fixture.objects.join("results/1-1000.ndjson.gz").exists());
    Ok(())
}

/// Without its signing state a validator may sign a height twice.
pub async fn reset_data_of_a_validator_requires_confirmation(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let (data, config) = (fixture.home.join("data"), fixture.home.join("config"));
    fs::write(config.join("priv_validator_key.json"), "{}")?;
    fs::create_dir_all(data.join("blockstore.db"))?;
    // The key of a full node is generated and never used.
    fs::write(config.join("config.toml"), "mode = \"full\"\n")?;
    fs::write(data.join("priv_validator_state.json"), r#"{"height": "0", "round": 0, "step": 0}"#)?;
    assert_eq!(sidecar.run_task("reset-data", &json!({})).await?["status"], "completed");
    let signed = r#"{"height": "12", "round": 0, "step": 3}"#;
    for (mode, state, reason) in [
        ("validator", r#"{"height": "0", "round": 0, "step": 0}"#, "mode is validator"),
        ("full", signed, "has signed at height 12"),
        ("full", "{", "cannot be excluded"),
    ] {
        fs::write(config.join("config.toml"), format!("mode = \"{mode}\"\n"))?;
        fs::write(data.join("priv_validator_state.json"), state)?;
        for params in [json!({}), json!({"confirmValidatorReset": false})] {
            let refused = sidecar.run_task("reset-data", &params).await?;
            let error = refused["error"].as_str().unwrap_or_default();
            assert!(error.contains(reason) && error.contains("confirmValidatorReset"), "{refused}");
            assert_eq!(fs::read_to_string(data.join("priv_validator_state.json"))?, state);
        }
    }
    let done = sidecar.run_task("reset-data", &json!({"confirmValidatorReset": true})).await?;
    assert_eq!(done["status"], "completed", "{done}");
    Ok(())
}

/// Unsupported task types are rejected with 400 and an explanation.
pub async fn unsupported_task_types_are_rejected(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    // evm-logical-digest would run a program chosen by the caller.
    for task_type in ["gov-vote", "gov-software-upgrade", "gov-param-change", "evm-logical-digest"] {
        let response = sidecar.request("POST", "/v0/tasks", &json!({"type": task_type}).to_string()).await?;
        assert_eq!(response.code, 400, "{task_type}: {response:?}");
        assert!(response.body.contains("not supported by this build"), "{task_type}: {response:?}");
    }
    let comparing = json!({"bucket": "b", "region": "r", "canonicalRpc": "http://a"});
    let failed = sidecar.run_task("result-export", &comparing).await?;
    assert!(
        failed["error"].as_str().is_some_and(|error| error.contains("not supported by this build")),
        "{failed}"
    );
    Ok(())
}

/// stop-seid and the action of await-condition, with a process named seid. A PID namespace isolates it from other seid processes
/// on the machine.
pub async fn stop_seid_sends_sigterm_only(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let dir = fixture.site.dir().join("bin");
    fs::create_dir_all(&dir)?;
    fs::copy("/bin/bash", dir.join("seid"))?;
    let events = fixture.site.dir().join("notes");
    // `seid start` runs bash with a script named `start`.
    let script = format!(
        "trap 'echo terminated >> {0}; exit 0' TERM; echo started >> {0}; while :; do sleep 0.1; done\n",
        events.display()
    );
    fs::write(dir.join("start"), script)?;
    let (port, home) = (crate::fixture::free_port(), &fixture.home);
    let binary = testbed::harness::binaries::path("outrigger")?;
    let launch = format!(
        "seid start & exec {} sidecar --home {} --chain-id t --genesis-bucket file:///tmp --genesis-region r --snapshot-bucket file:///tmp --snapshot-region r --port {port} --authn-mode unauthenticated --node-rpc http://127.0.0.1:{}",
        binary.display(),
        home.display(),
        fixture.rpc,
    );
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", dir.display());
    let process = Program::new("pod", "/usr/bin/unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child", "--", "/bin/bash", "-c", &launch])
        .env("PATH", path)
        .start(&fixture.site)?;
    let wait_event = |event: &'static str| {
        let events = events.clone();
        async move {
            wait::until(event, TIMEOUT, || async {
                let text = fs::read_to_string(&events).unwrap_or_default();
                if text.contains(event) { Ok(()) } else { Err(text) }
            })
            .await
        }
    };
    wait_event("started").await?;
    let sidecar = crate::fixture::Sidecar::attach(process, port, &fixture.site);
    wait::until("the sidecar to serve", TIMEOUT, || async { sidecar.get("/v0/livez").await.map(drop) })
        .await?;
    let stopped = sidecar.run_task("stop-seid", &json!({})).await?;
    assert_eq!(stopped["status"], "completed", "{stopped}");
    wait_event("terminated").await?;
    let again = sidecar.run_task("stop-seid", &json!({})).await?;
    assert_eq!(again["status"], "completed", "nothing to stop: {again}");
    let _rpc = fake_rpc::serve(fixture.rpc, fake_rpc::synced_node).await?;
    let unseen = sidecar.run_task("stop-seid", &json!({})).await?;
    assert!(unseen["error"].as_str().is_some_and(|error| error.contains("but its RPC responds")), "{unseen}");
    let missing = sidecar
        .run_task("await-condition", &json!({"condition": "catchingUp", "action": "SIGTERM_SEID"}))
        .await?;
    assert!(missing["error"].as_str().is_some_and(|error| error.contains("no seid process")), "{missing}");
    Ok(())
}
