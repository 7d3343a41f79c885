//! T-X1: more reporters on one object than its API server has time for.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testbed::faults::fault_proxy::{Fault, FaultProxy, Matching, Times, Verb};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::ground::{Ground, SOON, place};
use crate::reporter::Reporter;

const CROWDED: &str = "the API server is slow with so many reporters of one object";

/// Reports of others on the test's object.
async fn others(ground: &Ground<'_>, count: usize) -> Result<(), Error> {
    for number in 0..count {
        let entry = json!({
            "nodeName": format!("other-{number}"), "keyID": "1", "status": "Healthy",
            "lastCheckedTime": "2026-05-18T10:00:00Z",
        });
        let body = json!({
            "apiVersion": "outrigger.dev/v1alpha1", "kind": "KMSHealth", "metadata": { "name": ground.name },
            "status": { "healthReports": [entry] },
        });
        let manager = PatchParams::apply(&format!("kms-health-reporter-{number}")).force();
        ground.api("kmshealth").patch_status(&ground.name, &manager, &Patch::Apply(&body)).await?;
    }
    Ok(())
}

/// A reporter each of whose writes takes half a second.
async fn slowed(cx: &Context, ground: &Ground<'_>) -> Result<(FaultProxy, Reporter), Error> {
    let proxy = FaultProxy::recorded_in(ground.plane, cx.logs().join("journal.jsonl")).await?;
    let applies = Matching::any().verb(Verb::Patch).subresource("status");
    proxy.inject(Fault::Delay(Duration::from_millis(500)), applies, Times::Always);
    let user = ground.plane.admin().at(proxy.url());
    let reporter =
        ground.reporter("master-0").on("kmshealth", "kmshealth").every("1s").for_user(&user)?.start()?;
    Ok((proxy, reporter))
}

async fn stored(reporter: &Reporter) -> Result<f64, Error> {
    reporter.metric("outrigger_kms_publishes_total", "outcome=\"stored\"").await
}

/// What says nothing new is written seldom, and readers are told so; news are written at once.
pub async fn where_the_server_has_no_time_for_all_old_news_wait_and_news_do_not(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    others(&ground, 20).await?;
    let (_proxy, reporter) = slowed(&cx, &ground).await?;
    let promised = || async {
        let object = ground.object("kmshealth").await?;
        let reports = place("kmshealth", &object)["healthReports"].as_array().cloned().unwrap_or_default();
        let own = reports.iter().find(|report| report["nodeName"] == "master-0");
        Ok::<_, Error>(own.and_then(|report| report["intervalSeconds"].as_i64()).unwrap_or_default())
    };
    ground.status(&reporter, 1, "Healthy").await?;
    assert_eq!(promised().await?, 1, "how long a write takes was not known");
    reporter.until_told(&[CROWDED, "\"writers\":21"]).await?;
    wait::until("a report that promises no more than there is time for", SOON, || async {
        let seconds = promised().await?;
        if seconds == 16 { Ok(()) } else { Err(Error::Refused(format!("the next one within {seconds} s"))) }
    })
    .await?;
    let (written, left_out) =
        (stored(&reporter).await?, reporter.metric("outrigger_kms_publishes_left_out_total", "").await?);
    assert!(written < 4.0 && left_out > 8.0, "{written} were stored, {left_out} left out");
    assert!((reporter.metric("outrigger_kms_promised_interval_seconds", "").await? - 16.0).abs() < 0.5);

    let begin = Instant::now();
    plugin.crash();
    ground.status(&reporter, 1, "Error").await?;
    assert!(begin.elapsed() < Duration::from_secs(8), "told after {:?}", begin.elapsed());
    Ok(())
}

/// A crowded object is written only as it was read: who was slower is refused, and the server does not try again and again.
pub async fn in_a_crowd_who_was_slower_is_refused_and_comes_again(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let _plugin = ground.plugin(1)?;
    others(&ground, 4).await?;
    let (_proxy, reporter) = slowed(&cx, &ground).await?;
    reporter.until_told(&[CROWDED]).await?;
    // Somebody changes the object all the time: each write is too late.
    let (api, name) = (ground.api("kmshealth"), ground.name.clone());
    let faster = tokio::spawn(async move {
        loop {
            let label = format!("{}", Timestamp::now().as_nanosecond());
            let change = json!({ "metadata": { "labels": { "changed": label } } });
            let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    reporter.until_told(&["reports cannot be published", "unavailable", "409"]).await?;
    faster.abort();
    let before = stored(&reporter).await?;
    reporter.until_metric("outrigger_kms_publishes_total", "outcome=\"stored\"", before + 1.0).await?;
    Ok(())
}
