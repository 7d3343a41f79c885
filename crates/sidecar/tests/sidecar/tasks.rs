//! Tasks that do not depend on chain formats: their effect on files and the seid process.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, TestResult};

use crate::fake_rpc;
use crate::fixture::{Fixture, TIMEOUT};

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
    for (params, error_part) in [
        (json!({}), "at least one source"),
        (json!({"sources": [{"type": "static", "addresses": []}]}), "source 0: addresses"),
        (
            json!({"sources": [{"type": "static", "addresses": ["a@b:1"]}, {"type": "ec2Tags", "region": "r", "tags": {"a": "b"}}]}),
            "source 1: ec2Tags is not supported by this build",
        ),
        (json!({"sources": [{"type": "static", "addresses": ["a@b:1,c@d:2"]}]}), "invalid peer"),
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
    let sources = json!({"sources": [{"type": "static", "addresses": ["a@b:1", "c@d:2", "a@b:1"]}]});
    assert_eq!(sidecar.run_task("discover-peers", &sources).await?["result"], json!({"peers": 2}));
    let text = fs::read_to_string(&config)?;
    assert_eq!(
        text,
        "# custom\n[p2p]\nladdr = \"a\" # here\npersistent-peers = \"a@b:1,c@d:2\"\n\n[other]\nkept = true\n"
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
    let params = json!({"rpcServers": [server], "trustPeriod": "168h0m0s", "backfillBlocks": 9});
    let done = sidecar.run_task("configure-state-sync", &params).await?;
    assert_eq!(done["status"], "completed", "{done}");
    let text = fs::read_to_string(fixture.home.join("config/config.toml"))?;
    for line in [
        "enable = true".to_owned(),
        "trust-height = 3000".into(),
        format!("trust-hash = \"{}\"", "CD".repeat(32)),
        format!("rpc-servers = \"{server},{server}\""),
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
    let directory =
        sidecar.run_task("result-export", &json!({"bucket": "file:///etc", "region": "r"})).await?;
    assert!(directory["error"].as_str().is_some_and(|error| error.contains("a bucket name")), "{directory}");
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
        "seid start & exec {} sidecar --home {} --chain-id t --genesis-bucket file:///tmp --genesis-region r --snapshot-bucket file:///tmp --snapshot-region r --port {port} --node-rpc http://127.0.0.1:{}",
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
