//! Tasks without chain knowledge: what they do to the node's files and its process.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, TestResult};

use crate::ground::{Ground, SOON};
use crate::node;

pub async fn a_condition_is_awaited(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let height = sidecar
        .submit(None, "await-condition", &json!({"condition": "height", "targetHeight": 5000}))
        .await?;
    let higher = sidecar
        .submit(None, "await-condition", &json!({"condition": "height", "targetHeight": 5001}))
        .await?;
    let caught = sidecar.submit(None, "await-condition", &json!({"condition": "catchingUp"})).await?;
    assert_eq!(sidecar.task(&height).await?["status"], "running", "nobody answers yet");
    let _rpc = node::rpc(ground.rpc, node::status).await?;
    for id in [&height, &caught] {
        assert_eq!(sidecar.ended(id).await?["status"], "completed");
    }
    assert_eq!(sidecar.task(&higher).await?["status"], "running");
    for (params, why) in [
        (json!({}), "condition is required"),
        (json!({"condition": "weather"}), "unknown condition"),
        (json!({"condition": "height"}), "targetHeight must be above 0"),
        (json!({"condition": "height", "targetHeight": "5"}), "parsing params: "),
        (json!({"condition": "catchingUp", "action": "DANCE"}), "unknown action"),
    ] {
        let failed = sidecar.done("await-condition", &params).await?;
        assert!(failed["error"].as_str().is_some_and(|error| error.contains(why)), "{params}: {failed}");
    }
    Ok(())
}

pub async fn data_is_reset_only_when_the_node_is_stopped(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let data = ground.home.join("data");
    fs::create_dir_all(data.join("blockstore.db"))?;
    fs::write(data.join("blockstore.db/1"), vec![0; 1000])?;
    fs::write(data.join("cs.wal"), vec![0; 234])?;
    fs::write(ground.home.join(".sei-sidecar-statesync-done"), "")?;
    fs::write(ground.home.join(".sei-sidecar-snapshot-done"), "")?;
    let running = node::rpc(ground.rpc, node::status).await?;
    let refused = sidecar.done("reset-data", &json!({})).await?;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("seid runs")), "{refused}");
    assert!(data.join("blockstore.db/1").exists());
    running.abort();
    let _ = running.await;
    for bytes in [1234, 51] {
        let done = sidecar.done("reset-data", &json!({})).await?;
        assert_eq!(done["status"], "completed", "{done}");
        let wiped = done["result"]["wipedBytes"].as_i64().unwrap_or_default();
        assert!((bytes == 1234 && wiped == 1234) || (bytes != 1234 && wiped < 100), "{done}");
        let state: Value =
            serde_json::from_str(&fs::read_to_string(data.join("priv_validator_state.json"))?)?;
        assert_eq!(state, json!({"height": "0", "round": 0, "step": 0}));
        assert_eq!(fs::metadata(data.join("priv_validator_state.json"))?.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&data)?.count(), 1);
    }
    assert!(!ground.home.join(".sei-sidecar-statesync-done").exists());
    assert!(ground.home.join(".sei-sidecar-snapshot-done").exists());
    assert!(ground.home.join("config/config.toml").exists());
    Ok(())
}

/// configure-genesis: fetched, hashed, marked; S16 and S12.
pub async fn s16_a_genesis_file_is_there_as_a_whole_and_the_right_one(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let path = ground.home.join("config/genesis.json");
    let missing = sidecar.done("configure-genesis", &json!({})).await?;
    assert!(missing["error"].as_str().is_some_and(|error| error.contains("no such object")), "{missing}");
    fs::create_dir_all(ground.objects.join("test-1"))?;
    fs::write(ground.objects.join("test-1/genesis.json"), "{\"chain_id\":\"test-1\"}")?;
    let hash: String =
        Sha256::digest("{\"chain_id\":\"test-1\"}").iter().map(|byte| format!("{byte:02x}")).collect();
    let wrong = sidecar.done("configure-genesis", &json!({"expectedGenesisHash": "0".repeat(64)})).await?;
    assert!(wrong["error"].as_str().is_some_and(|error| error.contains(&hash)), "{wrong}");
    assert!(!path.exists() && !ground.home.join(".sei-sidecar-genesis-done").exists());
    assert_eq!(fs::read_dir(ground.home.join("config"))?.count(), 1, "nothing is left but config.toml");
    let malformed = sidecar.done("configure-genesis", &json!({"expectedGenesisHash": "AB"})).await?;
    assert!(
        malformed["error"].as_str().is_some_and(|error| error.contains("lower-case hexadecimal")),
        "{malformed}"
    );
    let done = sidecar.done("configure-genesis", &json!({"expectedGenesisHash": hash})).await?;
    assert_eq!(done["result"], json!({"genesisHash": hash}), "{done}");
    assert_eq!(fs::read_to_string(&path)?, "{\"chain_id\":\"test-1\"}");
    let again = sidecar.done("configure-genesis", &json!({})).await?;
    assert_eq!(again["result"]["genesisHash"], json!(hash));
    let other = sidecar.done("configure-genesis", &json!({"expectedGenesisHash": "1".repeat(64)})).await?;
    assert_eq!(other["status"], "failed", "a marker does not make another file right: {other}");
    Ok(())
}

pub async fn peers_are_found_and_written_without_touching_anything_else(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let config = ground.home.join("config/config.toml");
    fs::write(
        &config,
        "# mine\n[p2p]\nladdr = \"a\" # here\npersistent-peers = \"\"\n\n[other]\nkept = true\n",
    )?;
    for (params, why) in [
        (json!({}), "at least one source"),
        (json!({"sources": [{"type": "static", "addresses": []}]}), "source 0: addresses"),
        (
            json!({"sources": [{"type": "static", "addresses": ["a@b:1"]}, {"type": "ec2Tags", "region": "r", "tags": {"a": "b"}}]}),
            "source 1: ec2Tags is not supported by this build",
        ),
        (json!({"sources": [{"type": "static", "addresses": ["a@b:1,c@d:2"]}]}), "is no peer"),
        (json!({"sources": [{"type": "dnsEndpoints", "endpoints": ["127.0.0.1/../x"]}]}), "is no host name"),
        (
            json!({"sources": [{"type": "dnsEndpoints", "endpoints": ["127.9.9.9"]}]}),
            "no endpoint told who it is",
        ),
    ] {
        let failed = sidecar.done("discover-peers", &params).await?;
        assert!(failed["error"].as_str().is_some_and(|error| error.contains(why)), "{params}: {failed}");
    }
    let sources = json!({"sources": [{"type": "static", "addresses": ["a@b:1", "c@d:2", "a@b:1"]}]});
    assert_eq!(sidecar.done("discover-peers", &sources).await?["result"], json!({"peers": 2}));
    let text = fs::read_to_string(&config)?;
    assert_eq!(
        text,
        "# mine\n[p2p]\nladdr = \"a\" # here\npersistent-peers = \"a@b:1,c@d:2\"\n\n[other]\nkept = true\n"
    );
    Ok(())
}

pub async fn state_sync_trusts_what_witnesses_say(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let none = sidecar.done("configure-state-sync", &json!({})).await?;
    assert!(none["error"].as_str().is_some_and(|error| error.contains("no witnesses")), "{none}");
    let witness = format!("127.0.0.1:{}", ground.rpc);
    let dead = sidecar.done("configure-state-sync", &json!({"rpcServers": [witness]})).await?;
    assert!(dead["error"].as_str().is_some_and(|error| error.contains("no witness answers")), "{dead}");
    // S5: nothing but hosts.
    let odd = sidecar.done("configure-state-sync", &json!({"rpcServers": ["file:///etc/passwd"]})).await?;
    assert!(odd["error"].as_str().is_some_and(|error| error.contains("is no host:port")), "{odd}");
    let _rpc = node::rpc(ground.rpc, node::status).await?;
    let params = json!({"rpcServers": [witness], "trustPeriod": "168h0m0s", "backfillBlocks": 9});
    let done = sidecar.done("configure-state-sync", &params).await?;
    assert_eq!(done["status"], "completed", "{done}");
    let text = fs::read_to_string(ground.home.join("config/config.toml"))?;
    for line in [
        "enable = true".to_owned(),
        "trust-height = 3000".into(),
        format!("trust-hash = \"{}\"", "CD".repeat(32)),
        format!("rpc-servers = \"{witness},{witness}\""),
        "use-local-snapshot = false".into(),
        "trust-period = \"168h0m0s\"".into(),
        "backfill-blocks = 9".into(),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    let again = sidecar.done("configure-state-sync", &params).await?["result"].clone();
    assert_eq!((&again["skipped"], &again["trustHeight"]), (&json!("done already"), &json!(3000)), "{again}");
    let other = sidecar.done("configure-state-sync", &json!({"useLocalSnapshot": true})).await?;
    assert!(other["result"]["doneWith"].is_object(), "{other}");
    Ok(())
}

/// What this build does not do is refused at once, and says so.
pub async fn what_this_build_does_not_do_is_refused_at_submission(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    // S4: evm-logical-digest would run a program that the caller names.
    for kind in ["gov-vote", "gov-software-upgrade", "gov-param-change", "evm-logical-digest"] {
        let answer = sidecar.ask("POST", "/v0/tasks", &json!({"type": kind}).to_string()).await?;
        assert_eq!(answer.code, 400, "{kind}: {answer:?}");
        assert!(answer.body.contains("not supported by this build"), "{kind}: {answer:?}");
    }
    let comparing = json!({"bucket": "b", "region": "r", "canonicalRpc": "http://a"});
    let failed = sidecar.done("result-export", &comparing).await?;
    assert!(
        failed["error"].as_str().is_some_and(|error| error.contains("not supported by this build")),
        "{failed}"
    );
    let folder = sidecar.done("result-export", &json!({"bucket": "file:///etc", "region": "r"})).await?;
    assert!(folder["error"].as_str().is_some_and(|error| error.contains("name of a bucket")), "{folder}");
    Ok(())
}

/// stop-seid, restart-seid and the end of a wait, on a process that is called seid. It and the sidecar see only each other: no
/// other seid on this machine is touched.
pub async fn seid_is_stopped_and_never_killed_by_stop_seid(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let folder = ground.site.dir().join("bin");
    fs::create_dir_all(&folder)?;
    fs::copy("/bin/bash", folder.join("seid"))?;
    let notes = ground.site.dir().join("notes");
    // `seid start` is bash with a script of that name.
    let script = format!(
        "trap 'echo terminated >> {0}; exit 0' TERM; echo started >> {0}; while :; do sleep 0.1; done\n",
        notes.display()
    );
    fs::write(folder.join("start"), script)?;
    let (port, home) = (crate::ground::free_port(), &ground.home);
    let own = testbed::harness::binaries::path("outrigger")?;
    let launch = format!(
        "seid start & exec {} sidecar --home {} --chain-id t --genesis-bucket file:///tmp --genesis-region r --snapshot-bucket file:///tmp --snapshot-region r --port {port} --node-rpc http://127.0.0.1:{}",
        own.display(),
        home.display(),
        ground.rpc,
    );
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    let process = Program::new("pod", "/usr/bin/unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child", "--", "/bin/bash", "-c", &launch])
        .env("PATH", path)
        .start(&ground.site)?;
    let noted = |wanted: &'static str| {
        let notes = notes.clone();
        async move {
            wait::until(wanted, SOON, || async {
                let text = fs::read_to_string(&notes).unwrap_or_default();
                if text.contains(wanted) { Ok(()) } else { Err(text) }
            })
            .await
        }
    };
    noted("started").await?;
    let sidecar = crate::ground::Sidecar::beside(process, port, &ground.site);
    wait::until("a sidecar that serves", SOON, || async { sidecar.get("/v0/livez").await.map(drop) }).await?;
    let stopped = sidecar.done("stop-seid", &json!({})).await?;
    assert_eq!(stopped["status"], "completed", "{stopped}");
    noted("terminated").await?;
    let again = sidecar.done("stop-seid", &json!({})).await?;
    assert_eq!(again["status"], "completed", "nothing to stop: {again}");
    let _rpc = node::rpc(ground.rpc, node::status).await?;
    let unseen = sidecar.done("stop-seid", &json!({})).await?;
    assert!(unseen["error"].as_str().is_some_and(|error| error.contains("yet its RPC answers")), "{unseen}");
    let missing = sidecar
        .done("await-condition", &json!({"condition": "catchingUp", "action": "SIGTERM_SEID"}))
        .await?;
    assert!(missing["error"].as_str().is_some_and(|error| error.contains("no seid process")), "{missing}");
    Ok(())
}
