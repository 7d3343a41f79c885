//! Dry-runs: the answer of the task, and no effect.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testbed::{Context, Error, TestResult};

use crate::api::assert_matches_schema;
use crate::fixture::{Fixture, Response, Sidecar};
use crate::volume::Volume;

/// The files of the ledger. SQLite changes its shared memory when rows are read.
const LEDGER_MEMORY: &str = "sidecar.db-shm";

/// A file: its content, inode and modification time.
type FileState = (Vec<u8>, u64, (i64, i64));

/// Returns every file below a directory.
fn snapshot(dir: &Path) -> std::io::Result<BTreeMap<PathBuf, FileState>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, metadata) = (entry.path(), entry.metadata()?);
        if metadata.is_dir() {
            files.insert(
                path.clone(),
                (Vec::new(), metadata.ino(), (metadata.mtime(), metadata.mtime_nsec())),
            );
            files.extend(snapshot(&path)?);
        } else if entry.file_name() != LEDGER_MEMORY {
            let state = (fs::read(&path)?, metadata.ino(), (metadata.mtime(), metadata.mtime_nsec()));
            files.insert(path, state);
        }
    }
    Ok(files)
}

async fn dry_run(sidecar: &Sidecar, task_type: &str, params: &Value) -> Result<Response, Error> {
    let body = json!({ "type": task_type, "params": params }).to_string();
    sidecar.request("POST", "/v0/dry-run", &body).await
}

fn error(response: &Response) -> String {
    response.json()["error"].as_str().unwrap_or_default().to_owned()
}

pub async fn dry_run_fails_like_the_task_and_changes_nothing(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let applied = sidecar.run_task("config-apply", &json!({"mode": "full"})).await?;
    assert_eq!(applied["status"], "completed", "{applied}");
    let config = fixture.home.join("config/config.toml");
    let good = fs::read_to_string(&config)?;
    let with = |key: &str, value: Value| json!({"mode": "full", "overrides": {key: value}});
    let incremental = |key: &str, value: &str| json!({"incremental": true, "overrides": {key: value}});
    let malformed = "no toml";
    for (file, params) in [
        (good.as_str(), with("evm.http_prot", json!("8545"))),
        (&good, with("evm.http_port", json!("9545abc"))),
        (&good, with("evm.http_port", json!(8545))),
        (&good, with("chain.min_gas_prices", json!("free"))),
        (&good, json!({})),
        (&good, incremental("evm.http_port", "x")),
        (malformed, incremental("evm.http_port", "8545")),
        (malformed, with("evm.http_prot", json!("8545"))),
    ] {
        fs::write(&config, file)?;
        let (files, tasks) = (snapshot(&fixture.home)?, sidecar.get("/v0/tasks").await?.body);
        let rejected = dry_run(&sidecar, "config-apply", &params).await?;
        assert_eq!(
            (rejected.code, rejected.header("content-type")),
            (422, Some("application/json")),
            "{params}"
        );
        assert_eq!(snapshot(&fixture.home)?, files, "{params}");
        assert_eq!(sidecar.get("/v0/tasks").await?.body, tasks, "{params}");
        let failed = sidecar.run_task("config-apply", &params).await?;
        assert_eq!((failed["status"].as_str(), &failed["error"]), (Some("failed"), &json!(error(&rejected))));
        assert_eq!(fs::read_to_string(&config)?, file);
    }
    for (file, params) in [
        (good.as_str(), with("evm.http_port", json!("9999"))),
        (&good, incremental("evm.http_port", "9998")),
        (malformed, with("evm.http_port", json!("9997"))),
    ] {
        fs::write(&config, file)?;
        let (files, tasks) = (snapshot(&fixture.home)?, sidecar.get("/v0/tasks").await?.body);
        let valid = dry_run(&sidecar, "config-apply", &params).await?;
        assert_eq!((valid.code, valid.body.as_str()), (200, "{\"valid\":true}\n"), "{params}");
        assert_eq!(snapshot(&fixture.home)?, files, "{params}");
        assert_eq!(sidecar.get("/v0/tasks").await?.body, tasks, "{params}");
        let applied = sidecar.run_task("config-apply", &params).await?;
        assert_eq!(applied["status"], "completed", "{params}: {applied}");
        assert_ne!(snapshot(&fixture.home)?, files, "the comparison notices changes");
    }
    Ok(())
}

pub async fn dry_run_requests_are_checked_like_submissions(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?
        .env("SEI_SIDECAR_AUTHN_MODE", "trusted-header")
        .start()
        .await?
        .with_user("operator");
    for (body, expected) in [
        ("", "invalid request body"),
        ("[]", "invalid request body"),
        (r#"{"type": "config-apply", "params": []}"#, "invalid request body"),
        ("{}", "type is required"),
        (r#"{"type": "make-coffee"}"#, "unknown task type: make-coffee"),
        (
            r#"{"type": "gov-vote"}"#,
            "gov-vote is not supported by this build: sign and broadcast it with seid",
        ),
    ] {
        let dry_run = sidecar.request("POST", "/v0/dry-run", body).await?;
        assert_eq!((dry_run.code, error(&dry_run).as_str()), (400, expected), "{body}");
        let submission = sidecar.request("POST", "/v0/tasks", body).await?;
        assert_eq!((submission.code, error(&submission).as_str()), (400, expected), "{body}");
    }
    let large = format!(r#"{{"type":"config-apply","params":{{"a":"{}"}}}}"#, "x".repeat(1 << 20));
    assert_eq!(sidecar.request("POST", "/v0/dry-run", &large).await?.code, 413);
    // Like every type without a dry-run, it is not executed.
    let release = dry_run(&sidecar, "mark-ready", &json!({})).await?;
    let note = "mark-ready has no dry-run: only the request was checked";
    assert_eq!((release.code, release.json()), (200, json!({"valid": true, "note": note})));
    let document = sidecar::http::openapi::document();
    let schema = json!({"$ref": "#/components/schemas/DryRunResult"});
    assert_matches_schema(&document, &schema, &release.json(), "dry-run");
    assert!(!sidecar.is_ready().await?);
    assert_eq!(sidecar.get("/v0/tasks").await?.body, "[]\n");
    let anonymous =
        b"POST /v0/dry-run HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(sidecar.send_raw(anonymous).await?.code, 401);
    for method in ["GET", "PUT", "DELETE"] {
        let response = sidecar.request(method, "/v0/dry-run", "").await?;
        assert_eq!((response.code, response.header("allow")), (405, Some("POST")), "{method}");
    }
    Ok(())
}

pub async fn dry_run_works_on_a_read_only_volume(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let disk = Volume::disk(&fixture.home, &fixture.site.dir().join("disk"))?;
    let sidecar = fixture.start().await?;
    let applied = sidecar.run_task("config-apply", &json!({"mode": "full"})).await?;
    assert_eq!(applied["status"], "completed", "{applied}");
    disk.inject_error()?;
    let params = |port: &str| json!({"incremental": true, "overrides": {"evm.http_port": port}});
    let valid = dry_run(&sidecar, "config-apply", &params("9999")).await?;
    assert_eq!((valid.code, valid.body.as_str()), (200, "{\"valid\":true}\n"));
    let rejected = dry_run(&sidecar, "config-apply", &params("x")).await?;
    assert_eq!(rejected.code, 422, "{rejected:?}");
    assert!(
        error(&rejected).starts_with("config-apply incremental: override \"evm.http_port\""),
        "{rejected:?}"
    );
    let body = json!({"type": "config-apply", "params": params("9999")}).to_string();
    assert_eq!(sidecar.request("POST", "/v0/tasks", &body).await?.code, 503, "the volume is read-only");
    drop(sidecar);
    Ok(())
}
