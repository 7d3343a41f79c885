//! `config-apply`, `config-patch`, `config-reload` and `config-validate`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use chain::config::{Files, Intent, Mode, resolve};
use serde_json::{Value, json};
use sidecar::node::config::host;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Sidecar};

fn read_config(home: &Path) -> Files {
    let read = |name: &str| fs::read_to_string(home.join("config").join(name)).unwrap_or_default();
    Files { config: read("config.toml"), app: read("app.toml") }
}

/// Runs a task that must fail with this text in its error.
async fn assert_fails(sidecar: &Sidecar, task_type: &str, params: &Value, expected: &str) -> TestResult {
    let task = sidecar.run_task(task_type, params).await?;
    let error = task["error"].as_str().unwrap_or_default();
    assert!(task["status"] == "failed" && error.contains(expected), "{task_type} {params}: {task}");
    Ok(())
}

async fn run_completed(sidecar: &Sidecar, task_type: &str, params: &Value) -> Result<Value, testbed::Error> {
    let task = sidecar.run_task(task_type, params).await?;
    assert_eq!(task["status"], "completed", "{task_type} {params}: {task}");
    Ok(task["result"].clone())
}

/// Every mode renders the files that `chain` defines.
pub async fn config_apply_renders_every_mode(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    for mode in Mode::ALL {
        let result = run_completed(&sidecar, "config-apply", &json!({"mode": mode.name()})).await?;
        assert_eq!(result, json!({"mode": mode.name(), "version": 1}));
        let intent = Intent { mode: mode.name().into(), ..Intent::default() };
        let expected = resolve(&intent, None, &host())?.files;
        assert_eq!(read_config(&fixture.home), expected, "{mode}");
        for name in ["config.toml", "app.toml"] {
            let metadata = fs::metadata(fixture.home.join("config").join(name))?;
            assert_eq!(metadata.permissions().mode() & 0o777, 0o644, "{name}");
        }
        assert_eq!(fs::read_dir(fixture.home.join("config"))?.count(), 2, "no temporary files remain");
        let validated = sidecar.run_task("config-validate", &json!({})).await?;
        assert_eq!(validated["status"], "completed", "{mode}: {validated}");
        assert!(validated.get("result").is_none(), "{validated}");
    }
    let moniker = format!("moniker = \"{}\"", host().name);
    assert!(read_config(&fixture.home).config.contains(&moniker));
    Ok(())
}

/// Invalid modes, overrides and combinations.
pub async fn invalid_config_apply_writes_nothing(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    run_completed(&sidecar, "config-apply", &json!({"mode": "full"})).await?;
    let before = read_config(&fixture.home);
    let with = |mode: &str, key: &str, value: Value| json!({"mode": mode, "overrides": {key: value}});
    for (params, why) in [
        (json!({}), "config-apply: mode is required"),
        (json!({"mode": "Full"}), "config-apply: unknown mode \"Full\""),
        (with("full", "evm", json!("1")), "config-apply: unknown setting \"evm\""),
        (with("full", "evm.http_port", json!(1)), "parsing params: "),
        (with("full", "evm.http_port", json!("9545abc")), "config-apply: override \"evm.http_port\""),
        (with("full", "network.p2p.max_connections", json!("70000")), "network.p2p.max_connections"),
        (with("seed", "storage.snapshot_interval", json!("2000")), "config validation failed: [{"),
        (with("validator", "storage.pruning", json!("custom")), "config validation failed: [{"),
        (with("full", "logging.level", json!("trace")), "\"field\":\"logging.level\""),
        (with("full", "chain.min_gas_prices", json!("free")), "\"field\":\"chain.min_gas_prices\""),
        (with("full", "state_sync.enable", json!("true")), "\"field\":\"state_sync.trust_hash\""),
        (json!({"mode": "full", "targetVersion": 7}), "\"field\":\"version\""),
    ] {
        assert_fails(&sidecar, "config-apply", &params, why).await?;
        assert_eq!(read_config(&fixture.home), before, "{params}");
    }
    Ok(())
}

/// Incremental apply and reload change only the given keys; a full apply replaces everything.
pub async fn incremental_apply_preserves_other_keys(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    assert_fails(
        &sidecar,
        "config-apply",
        &json!({"incremental": true}),
        "config-apply incremental: app.toml",
    )
    .await?;
    let warned = json!({"mode": "validator", "overrides": {"evm.http_enabled": "true"}});
    let warned = run_completed(&sidecar, "config-apply", &warned).await?;
    assert_eq!(warned["warnings"][0]["field"], "evm", "{warned}");
    run_completed(&sidecar, "config-apply", &json!({"mode": "full"})).await?;
    let app = fixture.home.join("config/app.toml");
    fs::write(&app, fs::read_to_string(&app)? + "\n# ours\n[mine]\n  kept = true # so\n")?;
    let peers = json!({"sources": [{"type": "static", "addresses": [format!("{}@b:1", "ab".repeat(20))]}]});
    run_completed(&sidecar, "discover-peers", &peers).await?;
    let before = read_config(&fixture.home);
    let change = json!({"incremental": true, "overrides": {"evm.http_port": "9999"}});
    let changed = run_completed(&sidecar, "config-apply", &change).await?;
    assert_eq!(changed["unknownKeys"], json!(["app.toml: mine.kept"]), "{changed}");
    let after = read_config(&fixture.home);
    assert_eq!(after.config, before.config);
    assert_eq!(after.app, before.app.replace("http_port = 8545", "http_port = 9999"));
    run_completed(&sidecar, "config-reload", &json!({"fields": {"logging.level": "debug"}})).await?;
    let reloaded = read_config(&fixture.home);
    assert_eq!(reloaded.config, after.config.replace("log-level = \"info\"", "log-level = \"debug\""));
    assert_eq!(reloaded.app, after.app);
    for (fields, why) in [
        (json!({}), "at least one field is required"),
        (json!({"storage.db_backend": "goleveldb"}), "storage.db_backend: not reloadable on a running node"),
        (json!({"storage.nothing": "1"}), "unknown setting"),
        (json!({"mempool.size": "-1"}), "config validation failed: [{"),
    ] {
        assert_fails(&sidecar, "config-reload", &json!({"fields": fields}), why).await?;
    }
    let label = json!({"incremental": true, "mode": "validator"});
    let label = run_completed(&sidecar, "config-apply", &label).await?;
    assert_eq!(
        (&label["mode"], &label["warnings"][0]["field"]),
        (&json!("validator"), &json!("evm")),
        "{label}"
    );
    // A full apply keeps nothing.
    run_completed(&sidecar, "config-apply", &json!({"mode": "full"})).await?;
    let replaced = read_config(&fixture.home);
    assert!(replaced.config.contains("persistent-peers = \"\"") && !replaced.app.contains("mine"));
    Ok(())
}

/// Only three file names are accepted; numbers stay numbers and comments stay.
pub async fn config_patch_accepts_only_config_files(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let outside = fixture.home.join("app.toml");
    for name in [
        "../app.toml",
        "/etc/passwd",
        "genesis.json",
        "config.toml/../../app.toml",
        "",
        "priv_validator_key.json",
    ] {
        assert_fails(&sidecar, "config-patch", &json!({"files": {name: {"a": 1}}}), "cannot be patched")
            .await?;
    }
    assert!(!outside.exists());
    assert_fails(&sidecar, "config-patch", &json!({}), "at least one file is required").await?;
    assert_fails(&sidecar, "config-patch", &json!({"files": {"app.toml": 1}}), "must be a map").await?;
    let config = fixture.home.join("config/config.toml");
    fs::write(&config, "# mine\nmoniker = \"a\" # me\n[mempool]\nsize = 5000\nold = 1\n")?;
    let tree = json!({"files": {
        "config.toml": {"moniker": "b", "mempool": {"size": 7000, "old": null}, "p2p": {"laddr": "x"}},
        "app.toml": {"pruning": "nothing"},
    }});
    run_completed(&sidecar, "config-patch", &tree).await?;
    assert_eq!(
        fs::read_to_string(&config)?,
        "# mine\nmoniker = \"b\" # me\n[mempool]\nsize = 7000\n\n[p2p]\nladdr = \"x\"\n"
    );
    assert_eq!(fs::read_to_string(fixture.home.join("config/app.toml"))?, "pruning = \"nothing\"\n");
    // If one file cannot be patched, the other stays unchanged.
    fs::write(&config, "no toml")?;
    let tree = json!({"files": {"app.toml": {"pruning": "default"}, "config.toml": {"a": 1}}});
    assert_fails(&sidecar, "config-patch", &tree, "config.toml is not valid TOML").await?;
    assert_eq!(fs::read_to_string(fixture.home.join("config/app.toml"))?, "pruning = \"nothing\"\n");
    Ok(())
}

/// Invalid values in existing files are reported.
pub async fn config_validate_reports_invalid_files(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    assert_fails(&sidecar, "config-validate", &json!({}), "config-validate: reading config: app.toml")
        .await?;
    run_completed(&sidecar, "config-apply", &json!({"mode": "full"})).await?;
    let app = fixture.home.join("config/app.toml");
    let good = fs::read_to_string(&app)?;
    for (from, to, field) in [
        ("minimum-gas-prices = \"0.01usei\"", "minimum-gas-prices = \"\"", "chain.min_gas_prices"),
        ("version = 1", "version = 3", "version"),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(&app, good.replace(from, to))?;
        let task = sidecar.run_task("config-validate", &json!({})).await?;
        let report =
            task["error"].as_str().and_then(|error| error.strip_prefix("config validation failed: "));
        let report: Value = serde_json::from_str(report.unwrap_or_default())?;
        assert_eq!((&report["valid"], &report["mode"]), (&json!(false), &json!("full")), "{report}");
        assert_eq!(report["diagnostics"][0]["field"], field, "{report}");
    }
    let config = fixture.home.join("config/config.toml");
    fs::write(&app, &good)?;
    fs::write(&config, fs::read_to_string(&config)?.replace("fetchers = 2", "fetchers = \"2\""))?;
    assert_eq!(
        sidecar.run_task("config-validate", &json!({})).await?["status"],
        "completed",
        "quoted numbers, as seid init writes them"
    );
    Ok(())
}
