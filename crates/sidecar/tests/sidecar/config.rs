//! The node's settings: `config-apply`, `config-patch`, `config-reload`, `config-validate`. Numbers are those of the scenarios of
//! the settings' specification.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use chain::config::{Files, Intent, Mode, resolve};
use serde_json::{Value, json};
use sidecar::node::config::host;
use testbed::{Context, TestResult};

use crate::ground::{Ground, Sidecar};

fn files(home: &Path) -> Files {
    let read = |name: &str| fs::read_to_string(home.join("config").join(name)).unwrap_or_default();
    Files { config: read("config.toml"), app: read("app.toml") }
}

/// A task that must fail with this in its error.
async fn refused(sidecar: &Sidecar, kind: &str, params: &Value, why: &str) -> TestResult {
    let task = sidecar.done(kind, params).await?;
    let error = task["error"].as_str().unwrap_or_default();
    assert!(task["status"] == "failed" && error.contains(why), "{kind} {params}: {task}");
    Ok(())
}

async fn completed(sidecar: &Sidecar, kind: &str, params: &Value) -> Result<Value, testbed::Error> {
    let task = sidecar.done(kind, params).await?;
    assert_eq!(task["status"], "completed", "{kind} {params}: {task}");
    Ok(task["result"].clone())
}

/// 1 to 4, 21.
pub async fn settings_of_every_mode_are_written_as_the_table_says(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    for mode in Mode::ALL {
        let result = completed(&sidecar, "config-apply", &json!({"mode": mode.name()})).await?;
        assert_eq!(result, json!({"mode": mode.name(), "version": 1}));
        let intent = Intent { mode: mode.name().into(), ..Intent::default() };
        let wanted = resolve(&intent, None, &host())?.files;
        assert_eq!(files(&ground.home), wanted, "{mode}");
        for name in ["config.toml", "app.toml"] {
            let about = fs::metadata(ground.home.join("config").join(name))?;
            assert_eq!(about.permissions().mode() & 0o777, 0o644, "{name}");
        }
        assert_eq!(fs::read_dir(ground.home.join("config"))?.count(), 2, "nothing is left beside them");
        let validated = sidecar.done("config-validate", &json!({})).await?;
        assert_eq!(validated["status"], "completed", "{mode}: {validated}");
        assert!(validated.get("result").is_none(), "{validated}");
    }
    let moniker = format!("moniker = \"{}\"", host().name);
    assert!(files(&ground.home).config.contains(&moniker));
    Ok(())
}

/// 7, 9, 10, 12, 14, 19, 36: nothing is written.
pub async fn settings_that_cannot_be_are_refused_and_nothing_is_written(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    completed(&sidecar, "config-apply", &json!({"mode": "full"})).await?;
    let before = files(&ground.home);
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
        refused(&sidecar, "config-apply", &params, why).await?;
        assert_eq!(files(&ground.home), before, "{params}");
    }
    Ok(())
}

/// 8, 20, 22, 23, 27, 29.
pub async fn a_change_keeps_everything_else(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    refused(&sidecar, "config-apply", &json!({"incremental": true}), "config-apply incremental: app.toml")
        .await?;
    let warned = json!({"mode": "validator", "overrides": {"evm.http_enabled": "true"}});
    let warned = completed(&sidecar, "config-apply", &warned).await?;
    assert_eq!(warned["warnings"][0]["field"], "evm", "{warned}");
    completed(&sidecar, "config-apply", &json!({"mode": "full"})).await?;
    let app = ground.home.join("config/app.toml");
    fs::write(&app, fs::read_to_string(&app)? + "\n# ours\n[mine]\n  kept = true # so\n")?;
    let peers = json!({"sources": [{"type": "static", "addresses": [format!("{}@b:1", "ab".repeat(20))]}]});
    completed(&sidecar, "discover-peers", &peers).await?;
    let before = files(&ground.home);
    let change = json!({"incremental": true, "overrides": {"evm.http_port": "9999"}});
    let changed = completed(&sidecar, "config-apply", &change).await?;
    assert_eq!(changed["unknownKeys"], json!(["app.toml: mine.kept"]), "{changed}");
    let after = files(&ground.home);
    assert_eq!(after.config, before.config);
    assert_eq!(after.app, before.app.replace("http_port = 8545", "http_port = 9999"));
    completed(&sidecar, "config-reload", &json!({"fields": {"logging.level": "debug"}})).await?;
    let reloaded = files(&ground.home);
    assert_eq!(reloaded.config, after.config.replace("log-level = \"info\"", "log-level = \"debug\""));
    assert_eq!(reloaded.app, after.app);
    for (fields, why) in [
        (json!({}), "at least one field is required"),
        (json!({"storage.db_backend": "goleveldb"}), "storage.db_backend: not reloadable on a running node"),
        (json!({"storage.nothing": "1"}), "unknown setting"),
        (json!({"mempool.size": "-1"}), "config validation failed: [{"),
    ] {
        refused(&sidecar, "config-reload", &json!({"fields": fields}), why).await?;
    }
    let label = json!({"incremental": true, "mode": "validator"});
    let label = completed(&sidecar, "config-apply", &label).await?;
    assert_eq!(
        (&label["mode"], &label["warnings"][0]["field"]),
        (&json!("validator"), &json!("evm")),
        "{label}"
    );
    // A whole configuration has nothing of what was there.
    completed(&sidecar, "config-apply", &json!({"mode": "full"})).await?;
    let anew = files(&ground.home);
    assert!(anew.config.contains("persistent-peers = \"\"") && !anew.app.contains("mine"));
    Ok(())
}

/// S1: three names, and no way out; numbers stay numbers, comments stay.
pub async fn s01_only_the_files_of_settings_are_patched(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let outside = ground.home.join("app.toml");
    for name in [
        "../app.toml",
        "/etc/passwd",
        "genesis.json",
        "config.toml/../../app.toml",
        "",
        "priv_validator_key.json",
    ] {
        refused(&sidecar, "config-patch", &json!({"files": {name: {"a": 1}}}), "cannot be patched").await?;
    }
    assert!(!outside.exists());
    refused(&sidecar, "config-patch", &json!({}), "at least one file is required").await?;
    refused(&sidecar, "config-patch", &json!({"files": {"app.toml": 1}}), "must be a map").await?;
    let config = ground.home.join("config/config.toml");
    fs::write(&config, "# mine\nmoniker = \"a\" # me\n[mempool]\nsize = 5000\nold = 1\n")?;
    let tree = json!({"files": {
        "config.toml": {"moniker": "b", "mempool": {"size": 7000, "old": null}, "p2p": {"laddr": "x"}},
        "app.toml": {"pruning": "nothing"},
    }});
    completed(&sidecar, "config-patch", &tree).await?;
    assert_eq!(
        fs::read_to_string(&config)?,
        "# mine\nmoniker = \"b\" # me\n[mempool]\nsize = 7000\n\n[p2p]\nladdr = \"x\"\n"
    );
    assert_eq!(fs::read_to_string(ground.home.join("config/app.toml"))?, "pruning = \"nothing\"\n");
    // One that cannot be: the other stays as it was.
    fs::write(&config, "no toml")?;
    let tree = json!({"files": {"app.toml": {"pruning": "default"}, "config.toml": {"a": 1}}});
    refused(&sidecar, "config-patch", &tree, "config.toml is not valid TOML").await?;
    assert_eq!(fs::read_to_string(ground.home.join("config/app.toml"))?, "pruning = \"nothing\"\n");
    Ok(())
}

/// 26, 28, 30: what is wrong with the files that are there is told.
pub async fn settings_that_are_there_are_judged(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    refused(&sidecar, "config-validate", &json!({}), "config-validate: reading config: app.toml").await?;
    completed(&sidecar, "config-apply", &json!({"mode": "full"})).await?;
    let app = ground.home.join("config/app.toml");
    let good = fs::read_to_string(&app)?;
    for (from, to, field) in [
        ("minimum-gas-prices = \"0.01usei\"", "minimum-gas-prices = \"\"", "chain.min_gas_prices"),
        ("version = 1", "version = 3", "version"),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(&app, good.replace(from, to))?;
        let task = sidecar.done("config-validate", &json!({})).await?;
        let report =
            task["error"].as_str().and_then(|error| error.strip_prefix("config validation failed: "));
        let report: Value = serde_json::from_str(report.unwrap_or_default())?;
        assert_eq!((&report["valid"], &report["mode"]), (&json!(false), &json!("full")), "{report}");
        assert_eq!(report["diagnostics"][0]["field"], field, "{report}");
    }
    let config = ground.home.join("config/config.toml");
    fs::write(&app, &good)?;
    fs::write(&config, fs::read_to_string(&config)?.replace("fetchers = 2", "fetchers = \"2\""))?;
    assert_eq!(
        sidecar.done("config-validate", &json!({})).await?["status"],
        "completed",
        "quoted, as seid init does"
    );
    Ok(())
}
