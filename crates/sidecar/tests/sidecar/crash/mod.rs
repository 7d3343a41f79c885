//! Crash matrix: the sidecar is killed before each write of a task; every task must run exactly once or be recovered. `make test` covers
//! some crash points of every task type, `make crash-sidecar` all of them.

mod matrix;

use std::fs;

use serde_json::{Value, json};
use testbed::{Context, TestResult};

pub use self::matrix::{ID, state};
use self::matrix::{Workload, all, copy, stride};
use crate::fixture::Fixture;

pub async fn crash_during_config_task_leaves_config_consistent(cx: Context) -> TestResult {
    let full = || ("config-apply", json!({"mode": "full"}));
    all(
        &cx,
        &[
            Workload::new("config-apply", json!({"mode": "archive"})).after(&[full()]),
            Workload::new(
                "config-patch",
                json!({"files": {"config.toml": {"moniker": "m"}, "app.toml": {"pruning": "nothing"}}}),
            )
            .after(&[full()]),
            Workload::new("config-reload", json!({"fields": {"logging.level": "debug"}})).after(&[full()]),
        ],
    )
    .await
}

pub async fn crash_during_ceremony_creates_one_identity(cx: Context) -> TestResult {
    let balance = "1000000000000usei";
    let identity = || ("generate-identity", json!({"chainId": "test-1", "moniker": "val-0"}));
    let gentx = || {
        (
            "generate-gentx",
            json!({"chainId": "test-1", "stakingAmount": "10000000usei", "accountBalance": balance}),
        )
    };
    let artifacts = || ("upload-genesis-artifacts", json!({"nodeName": "val-0"}));
    let assemble = || {
        let params = json!({"accountBalance": balance, "namespace": "sei", "nodes": [{"name": "val-0"}]});
        ("assemble-and-upload-genesis", params)
    };
    let workload = |(task_type, params): (&'static str, Value)| Workload::new(task_type, params);
    all(
        &cx,
        &[
            workload(identity()).random(),
            workload(gentx()).after(&[identity()]).random(),
            workload(artifacts()).after(&[identity(), gentx()]),
            workload(assemble()).after(&[identity(), gentx(), artifacts()]),
            Workload::new("configure-genesis", json!({})).after(&[
                identity(),
                gentx(),
                artifacts(),
                assemble(),
            ]),
            Workload::new("set-genesis-peers", json!({})).after(&[
                identity(),
                gentx(),
                artifacts(),
                assemble(),
            ]),
        ],
    )
    .await
}

pub async fn crash_during_restore_or_reset_is_recovered(cx: Context) -> TestResult {
    all(
        &cx,
        &[
            Workload::new("snapshot-restore", json!({})),
            Workload::new("reset-data", json!({})).after(&[("snapshot-restore", json!({}))]),
        ],
    )
    .await
}

pub async fn crash_during_release_or_hold_is_recovered(cx: Context) -> TestResult {
    all(
        &cx,
        &[
            Workload::new("mark-ready", json!({})),
            Workload::new("mark-not-ready", json!({})).after(&[("mark-ready", json!({}))]),
        ],
    )
    .await
}

/// A WAL that is truncated or has a flipped bit: the ledger opens and contains a prefix of the accepted tasks.
pub async fn crash_with_torn_wal_keeps_a_prefix_of_tasks(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let mut submitted = Vec::new();
    for _ in 0..12 {
        submitted.push(sidecar.submit(None, "await-condition", &json!({"condition": "x"})).await?);
        let last = submitted.last().cloned().unwrap_or_default();
        sidecar.wait_finished(&last).await?;
    }
    sidecar.kill()?;
    drop(sidecar);
    let backup = fixture.site.dir().join("backup");
    copy(&fixture.home, &backup)?;
    let wal = fs::read(backup.join("sidecar.db-wal"))?;
    assert!(wal.len() > 8192, "the WAL has {} bytes", wal.len());
    let points: usize = if stride() == 1 { 120 } else { 12 };
    for point in 0..points {
        copy(&backup, &fixture.home)?;
        let at = wal.len() * (point + 1) / (points + 1);
        let torn: Vec<u8> = match point % 2 {
            0 => wal[..at].to_vec(),
            _ => wal
                .iter()
                .enumerate()
                .map(|(index, byte)| if index == at { byte ^ 0x40 } else { *byte })
                .collect(),
        };
        fs::write(fixture.home.join("sidecar.db-wal"), torn)?;
        let sidecar = fixture.start().await?;
        let listed = sidecar.get("/v0/tasks").await?.json();
        let listed: Vec<&str> =
            listed.as_array().into_iter().flatten().rev().filter_map(|task| task["id"].as_str()).collect();
        assert!(
            submitted.iter().map(String::as_str).collect::<Vec<_>>().starts_with(&listed),
            "torn at {at}: {listed:?}"
        );
        // Lost tasks can be submitted again.
        let task = sidecar.run_task("mark-ready", &json!({})).await?;
        assert_eq!(task["status"], "completed", "torn at {at}");
        sidecar.kill()?;
    }
    println!("torn logs tried: {points}");
    Ok(())
}
