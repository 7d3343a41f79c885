//! T-X1: more reporters on one object than its API server can serve.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testbed::faults::fault_proxy::{Fault, FaultProxy, RequestMatcher, Times, Verb};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, TIMEOUT, report_holder};
use crate::reporter_process::Reporter;

const SLOWED_DOWN: &str = "API server too slow for the number of reporters on one object";

/// Adds reports of other nodes to the test's object.
async fn add_other_reports(fixture: &Fixture<'_>, count: usize) -> Result<(), Error> {
    for number in 0..count {
        let entry = json!({
            "nodeName": format!("other-{number}"), "keyID": "1", "status": "Healthy",
            "lastCheckedTime": "2026-05-18T10:00:00Z",
        });
        let body = json!({
            "apiVersion": "outrigger.dev/v1alpha1", "kind": "KMSHealth", "metadata": { "name": fixture.name },
            "status": { "healthReports": [entry] },
        });
        let manager = PatchParams::apply(&format!("kms-health-reporter-{number}")).force();
        fixture.api("kmshealth").patch_status(&fixture.name, &manager, &Patch::Apply(&body)).await?;
    }
    Ok(())
}

/// Starts a reporter whose writes take half a second.
async fn start_slowed_reporter(cx: &Context, fixture: &Fixture<'_>) -> Result<(FaultProxy, Reporter), Error> {
    let proxy = FaultProxy::start_with_journal(fixture.plane, cx.logs().join("journal.jsonl")).await?;
    let applies = RequestMatcher::any().verb(Verb::Patch).subresource("status");
    proxy.inject(Fault::Delay(Duration::from_millis(500)), applies, Times::Always);
    let user = fixture.plane.admin().at(proxy.url());
    let reporter =
        fixture.reporter("master-0").on("kmshealth", "kmshealth").interval("1s").for_user(&user)?.start()?;
    Ok((proxy, reporter))
}

async fn stored_publishes(reporter: &Reporter) -> Result<f64, Error> {
    reporter.metric("outrigger_kms_publishes_total", "outcome=\"stored\"").await
}

/// Unchanged reports are published less often, with a longer intervalSeconds; changes are published immediately.
pub async fn slow_server_delays_only_unchanged_reports(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    add_other_reports(&fixture, 20).await?;
    let (_proxy, reporter) = start_slowed_reporter(&cx, &fixture).await?;
    let published_interval = || async {
        let object = fixture.object("kmshealth").await?;
        let reports =
            report_holder("kmshealth", &object)["healthReports"].as_array().cloned().unwrap_or_default();
        let own = reports.iter().find(|report| report["nodeName"] == "master-0");
        Ok::<_, Error>(own.and_then(|report| report["intervalSeconds"].as_i64()).unwrap_or_default())
    };
    fixture.until_status(&reporter, 1, "Healthy").await?;
    assert_eq!(published_interval().await?, 1, "the duration of a write is not known yet");
    reporter.until_logged(&[SLOWED_DOWN, "\"writers\":21"]).await?;
    wait::until("a report with a longer interval", TIMEOUT, || async {
        let seconds = published_interval().await?;
        if seconds == 16 { Ok(()) } else { Err(Error::Other(format!("intervalSeconds is {seconds}"))) }
    })
    .await?;
    let (written, skipped) = (
        stored_publishes(&reporter).await?,
        reporter.metric("outrigger_kms_publishes_left_out_total", "").await?,
    );
    assert!(written < 4.0 && skipped > 8.0, "{written} stored, {skipped} skipped");
    assert!((reporter.metric("outrigger_kms_promised_interval_seconds", "").await? - 16.0).abs() < 0.5);

    let start = Instant::now();
    plugin.crash();
    fixture.until_status(&reporter, 1, "Error").await?;
    assert!(start.elapsed() < Duration::from_secs(8), "published after {:?}", start.elapsed());
    Ok(())
}

/// With many reporters, a write carries the resourceVersion: the server rejects a stale write instead of retrying it, and the reporter
/// retries in a later round.
pub async fn stale_write_is_rejected_and_retried(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let _plugin = fixture.start_plugin(1)?;
    add_other_reports(&fixture, 4).await?;
    let (_proxy, reporter) = start_slowed_reporter(&cx, &fixture).await?;
    reporter.until_logged(&[SLOWED_DOWN]).await?;
    // Another client changes the object all the time: each write is stale.
    let (api, name) = (fixture.api("kmshealth"), fixture.name.clone());
    let writer = tokio::spawn(async move {
        loop {
            let label = format!("{}", Timestamp::now().as_nanosecond());
            let change = json!({ "metadata": { "labels": { "changed": label } } });
            let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    reporter.until_logged(&["failed to publish reports", "unavailable", "409"]).await?;
    writer.abort();
    let before = stored_publishes(&reporter).await?;
    reporter.until_metric("outrigger_kms_publishes_total", "outcome=\"stored\"", before + 1.0).await?;
    Ok(())
}
