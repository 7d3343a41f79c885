//! The crash matrix: killed before each of its writes, a task is done once or told honestly. In `make test` some points of every
//! kind; `make crash-sidecar` tries all.

mod matrix;

use std::fs;

use serde_json::{Value, json};
use testbed::{Context, TestResult};

pub use self::matrix::{ID, state};
use self::matrix::{Workload, all, copy, stride};
use crate::ground::Ground;

pub async fn a_crash_before_any_write_leaves_settings_whole(cx: Context) -> TestResult {
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

pub async fn a_crash_before_any_write_of_a_ceremony_makes_one_identity(cx: Context) -> TestResult {
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
    let workload = |(kind, params): (&'static str, Value)| Workload::new(kind, params);
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

pub async fn a_crash_before_any_write_restores_and_resets_data_whole(cx: Context) -> TestResult {
    all(
        &cx,
        &[
            Workload::new("snapshot-restore", json!({})),
            Workload::new("reset-data", json!({})).after(&[("snapshot-restore", json!({}))]),
        ],
    )
    .await
}

pub async fn a_crash_before_any_write_of_a_release_or_hold_tears_nothing(cx: Context) -> TestResult {
    all(
        &cx,
        &[
            Workload::new("mark-ready", json!({})),
            Workload::new("mark-not-ready", json!({})).after(&[("mark-ready", json!({}))]),
        ],
    )
    .await
}

/// Torn logs: cut anywhere, or with a byte that is another one: the ledger opens, and holds the beginning of what was answered.
pub async fn a_crash_that_tears_the_log_anywhere_leaves_a_beginning(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let mut given = Vec::new();
    for _ in 0..12 {
        given.push(sidecar.submit(None, "await-condition", &json!({"condition": "x"})).await?);
        let last = given.last().cloned().unwrap_or_default();
        sidecar.ended(&last).await?;
    }
    sidecar.kill()?;
    drop(sidecar);
    let keep = ground.site.dir().join("kept");
    copy(&ground.home, &keep)?;
    let log = fs::read(keep.join("sidecar.db-wal"))?;
    assert!(log.len() > 8192, "the log holds {} bytes", log.len());
    let points: usize = if stride() == 1 { 120 } else { 12 };
    for point in 0..points {
        copy(&keep, &ground.home)?;
        let at = log.len() * (point + 1) / (points + 1);
        let torn: Vec<u8> = match point % 2 {
            0 => log[..at].to_vec(),
            _ => log
                .iter()
                .enumerate()
                .map(|(index, byte)| if index == at { byte ^ 0x40 } else { *byte })
                .collect(),
        };
        fs::write(ground.home.join("sidecar.db-wal"), torn)?;
        let sidecar = ground.start().await?;
        let listed = sidecar.get("/v0/tasks").await?.json();
        let listed: Vec<&str> =
            listed.as_array().into_iter().flatten().rev().filter_map(|task| task["id"].as_str()).collect();
        assert!(
            given.iter().map(String::as_str).collect::<Vec<_>>().starts_with(&listed),
            "torn at {at}: {listed:?}"
        );
        // Whatever is missing can be given again.
        let task = sidecar.done("mark-ready", &json!({})).await?;
        assert_eq!(task["status"], "completed", "torn at {at}");
        sidecar.kill()?;
    }
    println!("torn logs tried: {points}");
    Ok(())
}
