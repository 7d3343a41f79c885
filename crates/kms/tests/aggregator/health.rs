//! Rollup of reports in a KMSHealth.

use std::time::Duration;

use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{
    AUTHENTICATION, Fixture, Form, INTERVAL, KMS_HEALTH, KUBE, OPENSHIFT, TIMEOUT, failing, healthy,
};

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
        message.contains("\nb keyID=2 role=write(assumed) Error since ")
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
        if condition.2.contains("gone keyID=1 role=read(assumed) NeverReported") {
            Ok(())
        } else {
            Err(condition.2)
        }
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

/// T-G15: KMS checks are part of the readiness of an API server, so a failing plugin makes its pod unready.
pub async fn failing_plugin_degrades_although_its_pods_are_not_ready(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let kinds = [OPENSHIFT, AUTHENTICATION];
    fixture.set_pods(&[("a", &[1]), ("b", &[1])]).await?;
    let mut all = Vec::new();
    for kind in kinds {
        fixture.create(kind, "cluster", json!({ "managementState": "Managed" })).await?;
        let nodes = [("a", vec![healthy("1")]), ("b", vec![healthy("1")])];
        all.push(fixture.reporters(kind, "cluster", Form::Typed, &nodes));
    }
    fixture.set_pod_ready("a", true).await?;
    fixture.set_pod_ready("b", true).await?;
    let _aggregator = fixture.aggregator("openshiftapiserver,authentication")?;
    for kind in kinds {
        fixture.until(kind, "cluster", DEGRADED, "AsExpected").await?;
    }
    for (node, available) in [("b", "AsExpected"), ("a", "WritePluginDown")] {
        all.iter().for_each(|reporters| reporters.set(node, &[failing("1")]));
        fixture.set_pod_ready(node, false).await?;
        for kind in kinds {
            fixture.until(kind, "cluster", "KMSPluginsAvailable", available).await?;
            fixture.until(kind, "cluster", DEGRADED, "PluginError").await?;
            wait::throughout(format!("PluginError while {node} is not ready"), INTERVAL * 5, || async {
                let condition = fixture.condition(kind, "cluster", DEGRADED).await;
                let condition = condition.map_err(|error| error.to_string())?;
                let line =
                    condition.2.lines().any(|line| line.contains(node) && line.contains(" Error since "));
                if condition.1 == "PluginError" && line { Ok(()) } else { Err(format!("{condition:?}")) }
            })
            .await?;
        }
    }
    Ok(())
}

/// A reporter writes every five seconds, which its pod or its report says. The other one writes as often as the aggregator expects.
pub async fn interval_of_each_report_decides_staleness(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let args = |interval: &str| {
        vec!["--kms-sockets=unix:///run/kms-1.sock".to_owned(), format!("--interval={interval}")]
    };
    fixture.set_pods_with(&[("slow", args("5s")), ("fast", args("2s"))]).await?;
    fixture.create(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    let _aggregator = fixture.aggregator("kubeapiserver")?;
    fixture.until(KUBE, "cluster", DEGRADED, "NotYetObserved").await?;
    let nodes = [("slow", vec![healthy("1")]), ("fast", vec![healthy("1")])];
    let reporters = fixture.reporters(KUBE, "cluster", Form::Condition, &nodes);
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    drop(reporters);
    let message = fixture.until(KUBE, "cluster", DEGRADED, "ReporterStale").await?;
    assert!(message.contains("\nfast keyID=1") && !message.contains("slow"), "{message}");
    wait::until("the other report to be stale", TIMEOUT, || async {
        let message =
            fixture.condition(KUBE, "cluster", DEGRADED).await.map_err(|error| error.to_string())?.2;
        if message.contains("2 nodes: fast, slow keyID=1") { Ok(()) } else { Err(message) }
    })
    .await?;
    Ok(())
}
