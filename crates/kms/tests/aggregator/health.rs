//! Our own kind: what reports become.

use std::time::Duration;

use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::ground::{Form, Ground, INTERVAL, OURS, SOON, sick, well};

const DEGRADED: &str = "KMSPluginsDegraded";

pub async fn a_sick_plugin_degrades_and_a_mended_one_does_not_and_each_change_is_told_once(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.object(OURS, "sick", json!({ "expectedNodes": ["a", "b"] })).await?;
    let all = || vec![well("2"), well("1")];
    let reporters = ground.reporters(OURS, "sick", Form::Typed, &[("a", all()), ("b", all())]);
    let _aggregator = ground.aggregator("kmshealth")?;
    let message = ground.until(OURS, "sick", DEGRADED, "AsExpected").await?;
    assert_eq!(message, "4/4 plugins healthy, 0 stale, 0 missing");
    reporters.set("b", &[sick("2"), well("1")]);
    let message = ground.until(OURS, "sick", DEGRADED, "PluginError").await?;
    assert!(
        message.contains("\nb keyID=2 role=write Error since ")
            && message.ends_with(" cause=Timeout: no answer within 5s"),
        "{message}"
    );
    assert_eq!(ground.condition(OURS, "sick", "KMSPluginsAvailable").await?.0, "True");
    reporters.set("a", &[sick("2"), well("1")]);
    ground.until(OURS, "sick", "KMSPluginsAvailable", "WritePluginDown").await?;
    reporters.set("a", &all());
    reporters.set("b", &[well("2"), sick("1")]);
    ground.until(OURS, "sick", DEGRADED, "ReadPluginUnhealthy").await?;
    reporters.set("b", &all());
    ground.until(OURS, "sick", DEGRADED, "AsExpected").await?;
    let told = wait::until("events", SOON, || async {
        let events = ground.events("sick").await.map_err(|error| error.to_string())?;
        let degraded: Vec<String> = events
            .iter()
            .filter(|(_, note)| note.starts_with(DEGRADED))
            .map(|(reason, _)| reason.clone())
            .collect();
        if degraded.contains(&"PluginError".to_owned()) { Ok(degraded) } else { Err(format!("{events:?}")) }
    })
    .await?;
    assert_eq!(told.iter().filter(|reason| *reason == "PluginError").count(), 1, "{told:?}");
    let object = OURS.api(&ground.client).get("sick").await?;
    assert_eq!(object.data["status"]["observedGeneration"], 1);
    Ok(())
}

/// T-G2, T-G3.
pub async fn a_reporter_that_dies_is_unknown_and_its_clock_does_not_matter(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.object(OURS, "dies", json!({ "expectedNodes": ["early", "late", "right"] })).await?;
    let off = |clock| vec![crate::ground::Report { clock, ..well("1") }];
    let nodes = [("early", off(-3600)), ("late", off(3600)), ("right", off(0))];
    let _aggregator = ground.aggregator("kmshealth")?;
    let reporters = ground.reporters(OURS, "dies", Form::Typed, &nodes);
    ground.until(OURS, "dies", DEGRADED, "AsExpected").await?;
    wait::throughout("health", INTERVAL * 5, || async {
        let seen = ground.condition(OURS, "dies", DEGRADED).await.map_err(|error| error.to_string())?;
        if seen.1 == "AsExpected" { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await?;
    reporters.set("late", &[]);
    let message = ground.until(OURS, "dies", DEGRADED, "ReporterStale").await?;
    assert!(message.contains("\nlate keyID=1 role=write Stale since "), "{message}");
    assert_eq!(ground.condition(OURS, "dies", DEGRADED).await?.0, "Unknown");
    assert_eq!(ground.condition(OURS, "dies", "KMSRemoteKeyConverged").await?.1, "ReportsStale");
    reporters.set("late", &off(3600));
    ground.until(OURS, "dies", DEGRADED, "AsExpected").await?;
    Ok(())
}

/// T-G4.
pub async fn a_node_that_never_reports_is_missed_after_its_deadline(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.object(OURS, "missing", json!({ "expectedNodes": ["a", "b"] })).await?;
    let _reporters = ground.reporters(OURS, "missing", Form::Typed, &[("a", vec![well("1")])]);
    let _aggregator = ground.aggregator("kmshealth")?;
    ground.until(OURS, "missing", DEGRADED, "NotYetObserved").await?;
    assert_eq!(ground.condition(OURS, "missing", DEGRADED).await?.0, "False");
    let message = ground.until(OURS, "missing", DEGRADED, "ReporterMissing").await?;
    assert!(message.contains("\nb keyID=1 role=write NeverReported since "), "{message}");
    assert_eq!(ground.condition(OURS, "missing", DEGRADED).await?.0, "Unknown");
    Ok(())
}

/// T-G5.
pub async fn a_plugin_that_flaps_stays_degraded(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.object(OURS, "flaps", json!({})).await?;
    let reporters = ground.reporters(OURS, "flaps", Form::Typed, &[("a", vec![well("1")])]);
    let _aggregator = ground.aggregator("kmshealth")?;
    ground.until(OURS, "flaps", DEGRADED, "AsExpected").await?;
    for _ in 0..2 {
        reporters.set("a", &[sick("1")]);
        ground.until(OURS, "flaps", DEGRADED, "PluginError").await?;
        reporters.set("a", &[well("1")]);
        wait::until("a good report to be looked at", SOON, || async {
            let seen = ground.condition(OURS, "flaps", DEGRADED).await.map_err(|error| error.to_string())?;
            if seen.1 == "PluginError" { Err(format!("{seen:?}")) } else { Ok(()) }
        })
        .await?;
    }
    let message = ground.until(OURS, "flaps", DEGRADED, "PluginFlapping").await?;
    assert!(message.contains("\na keyID=1 role=write Flapping since "), "{message}");
    wait::throughout("what it says", INTERVAL * 5, || async {
        let seen = ground.condition(OURS, "flaps", DEGRADED).await.map_err(|error| error.to_string())?;
        if (seen.0.as_str(), &seen.2) == ("True", &message) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await?;
    Ok(())
}

/// T-G7.
pub async fn where_nothing_changes_nothing_is_written(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.object(OURS, "rests", json!({ "expectedNodes": ["a", "b", "gone"] })).await?;
    let nodes = [("a", vec![well("2"), sick("1")]), ("b", vec![well("2"), well("1")])];
    let _reporters = ground.reporters(OURS, "rests", Form::Typed, &nodes);
    let _aggregator = ground.aggregator("kmshealth")?;
    ground.until(OURS, "rests", DEGRADED, "ReadPluginUnhealthy").await?;
    wait::until("the third to be missed", SOON, || async {
        let seen = ground.condition(OURS, "rests", DEGRADED).await.map_err(|error| error.to_string())?;
        if seen.2.contains("gone keyID=1 role=read NeverReported") { Ok(()) } else { Err(seen.2) }
    })
    .await?;
    let reported = || -> Result<usize, testbed::Error> {
        let all = ground.plane.audit().requests(|one| one.resource == "kmshealths" && one.is_write());
        Ok(all?.iter().filter(|one| one.user_agent != crate::ground::AGENT).count())
    };
    let before = reported()?;
    ground.rests_for(Duration::from_secs(20)).await?;
    let reports = reported()? - before;
    assert!(reports > 20, "only {reports} reports came in the meantime");
    Ok(())
}

/// T-G3.
pub async fn a_restart_with_a_stale_object_writes_nothing(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.object(OURS, "stale", json!({ "expectedNodes": ["a", "b"] })).await?;
    let reporters = ground.reporters(OURS, "stale", Form::Typed, &[("a", vec![well("1")])]);
    let first = ground.aggregator("kmshealth")?;
    ground.until(OURS, "stale", DEGRADED, "ReporterMissing").await?;
    drop(reporters);
    ground.until(OURS, "stale", DEGRADED, "ReporterStale").await?;
    // Longer ago than a clock may be off.
    let old = crate::ground::Report { clock: -600, ..well("1") };
    ground.report(OURS, "stale", Form::Typed, "a", &[old]).await?;
    ground.until(OURS, "stale", DEGRADED, "ReporterMissing").await?;
    ground.until(OURS, "stale", DEGRADED, "ReporterStale").await?;
    drop(first);
    let before = (ground.condition(OURS, "stale", DEGRADED).await?, ground.writes()?.len());
    let lists = |one: &testbed::cluster::control_plane::AuditedRequest| {
        one.user_agent == crate::ground::AGENT && one.resource == "kmshealths" && one.verb == "watch"
    };
    let seen = ground.plane.audit().requests(lists)?.len();
    let _second = ground.aggregator("kmshealth")?;
    ground.plane.audit().wait_for(seen + 1, SOON, lists).await?;
    ground.rests_for(INTERVAL * 6).await?;
    assert_eq!((ground.condition(OURS, "stale", DEGRADED).await?, ground.writes()?.len()), before);
    Ok(())
}
