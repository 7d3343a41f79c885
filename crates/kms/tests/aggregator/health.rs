//! Rollup of reports in a KMSHealth.

use std::time::Duration;

use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Form, INTERVAL, KMS_HEALTH, TIMEOUT, failing, healthy};

const DEGRADED: &str = "KMSPluginsDegraded";

pub async fn failing_plugin_degrades_and_emits_one_event(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "failing", json!({ "expectedNodes": ["a", "b"] })).await?;
    let all = || vec![healthy("2"), healthy("1")];
    let reporters = fixture.reporters(KMS_HEALTH, "failing", Form::Typed, &[("a", all()), ("b", all())]);
    let _aggregator = fixture.aggregator("kmshealth")?;
    let message = fixture.until(KMS_HEALTH, "failing", DEGRADED, "AsExpected").await?;
    assert_eq!(message, "4/4 plugins healthy, 0 stale, 0 missing");
    reporters.set("b", &[failing("2"), healthy("1")]);
    let message = fixture.until(KMS_HEALTH, "failing", DEGRADED, "PluginError").await?;
    assert!(
        message.contains("\nb keyID=2 role=write Error since ")
            && message.ends_with(" cause=Timeout: no answer within 5s"),
        "{message}"
    );
    assert_eq!(fixture.condition(KMS_HEALTH, "failing", "KMSPluginsAvailable").await?.0, "True");
    reporters.set("a", &[failing("2"), healthy("1")]);
    fixture.until(KMS_HEALTH, "failing", "KMSPluginsAvailable", "WritePluginDown").await?;
    reporters.set("a", &all());
    reporters.set("b", &[healthy("2"), failing("1")]);
    fixture.until(KMS_HEALTH, "failing", DEGRADED, "ReadPluginUnhealthy").await?;
    reporters.set("b", &all());
    fixture.until(KMS_HEALTH, "failing", DEGRADED, "AsExpected").await?;
    let reasons = wait::until("events", TIMEOUT, || async {
        let events = fixture.events("failing").await.map_err(|error| error.to_string())?;
        let degraded: Vec<String> = events
            .iter()
            .filter(|(_, note)| note.starts_with(DEGRADED))
            .map(|(reason, _)| reason.clone())
            .collect();
        if degraded.contains(&"PluginError".to_owned()) { Ok(degraded) } else { Err(format!("{events:?}")) }
    })
    .await?;
    assert_eq!(reasons.iter().filter(|reason| *reason == "PluginError").count(), 1, "{reasons:?}");
    let object = KMS_HEALTH.api(&fixture.client).get("failing").await?;
    assert_eq!(object.data["status"]["observedGeneration"], 1);
    Ok(())
}

/// T-G2, T-G3: a reporter dies; node clocks are an hour off.
pub async fn dead_reporter_is_stale_regardless_of_its_clock(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "dies", json!({ "expectedNodes": ["early", "late", "right"] })).await?;
    let skewed = |clock_skew| vec![crate::fixture::Report { clock_skew, ..healthy("1") }];
    let nodes = [("early", skewed(-3600)), ("late", skewed(3600)), ("right", skewed(0))];
    let _aggregator = fixture.aggregator("kmshealth")?;
    let reporters = fixture.reporters(KMS_HEALTH, "dies", Form::Typed, &nodes);
    fixture.until(KMS_HEALTH, "dies", DEGRADED, "AsExpected").await?;
    wait::throughout("AsExpected", INTERVAL * 5, || async {
        let condition =
            fixture.condition(KMS_HEALTH, "dies", DEGRADED).await.map_err(|error| error.to_string())?;
        if condition.1 == "AsExpected" { Ok(()) } else { Err(format!("{condition:?}")) }
    })
    .await?;
    reporters.set("late", &[]);
    let message = fixture.until(KMS_HEALTH, "dies", DEGRADED, "ReporterStale").await?;
    assert!(message.contains("\nlate keyID=1 role=write Stale since "), "{message}");
    assert_eq!(fixture.condition(KMS_HEALTH, "dies", DEGRADED).await?.0, "Unknown");
    assert_eq!(fixture.condition(KMS_HEALTH, "dies", "KMSRemoteKeyConverged").await?.1, "ReportsStale");
    reporters.set("late", &skewed(3600));
    fixture.until(KMS_HEALTH, "dies", DEGRADED, "AsExpected").await?;
    Ok(())
}

/// T-G4: an expected node never reports.
pub async fn silent_node_is_missing_after_deadline(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "missing", json!({ "expectedNodes": ["a", "b"] })).await?;
    let _reporters = fixture.reporters(KMS_HEALTH, "missing", Form::Typed, &[("a", vec![healthy("1")])]);
    let _aggregator = fixture.aggregator("kmshealth")?;
    fixture.until(KMS_HEALTH, "missing", DEGRADED, "NotYetObserved").await?;
    assert_eq!(fixture.condition(KMS_HEALTH, "missing", DEGRADED).await?.0, "False");
    let message = fixture.until(KMS_HEALTH, "missing", DEGRADED, "ReporterMissing").await?;
    assert!(message.contains("\nb keyID=1 role=write NeverReported since "), "{message}");
    assert_eq!(fixture.condition(KMS_HEALTH, "missing", DEGRADED).await?.0, "Unknown");
    Ok(())
}

/// T-G5: a plugin alternates between healthy and failing.
pub async fn flapping_plugin_stays_degraded(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "flaps", json!({})).await?;
    let reporters = fixture.reporters(KMS_HEALTH, "flaps", Form::Typed, &[("a", vec![healthy("1")])]);
    let _aggregator = fixture.aggregator("kmshealth")?;
    fixture.until(KMS_HEALTH, "flaps", DEGRADED, "AsExpected").await?;
    for _ in 0..2 {
        reporters.set("a", &[failing("1")]);
        fixture.until(KMS_HEALTH, "flaps", DEGRADED, "PluginError").await?;
        reporters.set("a", &[healthy("1")]);
        wait::until("the healthy report to be rolled up", TIMEOUT, || async {
            let condition =
                fixture.condition(KMS_HEALTH, "flaps", DEGRADED).await.map_err(|error| error.to_string())?;
            if condition.1 == "PluginError" { Err(format!("{condition:?}")) } else { Ok(()) }
        })
        .await?;
    }
    let message = fixture.until(KMS_HEALTH, "flaps", DEGRADED, "PluginFlapping").await?;
    assert!(message.contains("\na keyID=1 role=write Flapping since "), "{message}");
    wait::throughout("the same message", INTERVAL * 5, || async {
        let condition =
            fixture.condition(KMS_HEALTH, "flaps", DEGRADED).await.map_err(|error| error.to_string())?;
        if (condition.0.as_str(), &condition.2) == ("True", &message) {
            Ok(())
        } else {
            Err(format!("{condition:?}"))
        }
    })
    .await?;
    Ok(())
}

/// T-G7: reports keep arriving and nothing changes.
pub async fn steady_state_writes_nothing(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "rests", json!({ "expectedNodes": ["a", "b", "gone"] })).await?;
    let nodes = [("a", vec![healthy("2"), failing("1")]), ("b", vec![healthy("2"), healthy("1")])];
    let _reporters = fixture.reporters(KMS_HEALTH, "rests", Form::Typed, &nodes);
    let _aggregator = fixture.aggregator("kmshealth")?;
    fixture.until(KMS_HEALTH, "rests", DEGRADED, "ReadPluginUnhealthy").await?;
    wait::until("the third node to be missing", TIMEOUT, || async {
        let condition =
            fixture.condition(KMS_HEALTH, "rests", DEGRADED).await.map_err(|error| error.to_string())?;
        if condition.2.contains("gone keyID=1 role=read NeverReported") { Ok(()) } else { Err(condition.2) }
    })
    .await?;
    let count_reports = || -> Result<usize, testbed::Error> {
        let all = fixture.plane.audit().requests(|one| one.resource == "kmshealths" && one.is_write());
        Ok(all?.iter().filter(|one| one.user_agent != crate::fixture::AGENT).count())
    };
    let before = count_reports()?;
    fixture.assert_no_writes_for(Duration::from_secs(20)).await?;
    let reports = count_reports()? - before;
    assert!(reports > 20, "only {reports} reports arrived");
    Ok(())
}

/// T-G3: the aggregator restarts while reports are stale.
pub async fn restart_with_stale_reports_writes_nothing(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "stale", json!({ "expectedNodes": ["a", "b"] })).await?;
    let reporters = fixture.reporters(KMS_HEALTH, "stale", Form::Typed, &[("a", vec![healthy("1")])]);
    let first = fixture.aggregator("kmshealth")?;
    fixture.until(KMS_HEALTH, "stale", DEGRADED, "ReporterMissing").await?;
    drop(reporters);
    fixture.until(KMS_HEALTH, "stale", DEGRADED, "ReporterStale").await?;
    // Older than the tolerated clock skew.
    let old = crate::fixture::Report { clock_skew: -600, ..healthy("1") };
    fixture.report(KMS_HEALTH, "stale", Form::Typed, "a", &[old]).await?;
    fixture.until(KMS_HEALTH, "stale", DEGRADED, "ReporterMissing").await?;
    fixture.until(KMS_HEALTH, "stale", DEGRADED, "ReporterStale").await?;
    drop(first);
    let before = (fixture.condition(KMS_HEALTH, "stale", DEGRADED).await?, fixture.writes()?.len());
    let watches = |one: &testbed::cluster::control_plane::AuditedRequest| {
        one.user_agent == crate::fixture::AGENT && one.resource == "kmshealths" && one.verb == "watch"
    };
    let before_restart = fixture.plane.audit().requests(watches)?.len();
    let _second = fixture.aggregator("kmshealth")?;
    fixture.plane.audit().wait_for(before_restart + 1, TIMEOUT, watches).await?;
    fixture.assert_no_writes_for(INTERVAL * 6).await?;
    assert_eq!((fixture.condition(KMS_HEALTH, "stale", DEGRADED).await?, fixture.writes()?.len()), before);
    Ok(())
}
