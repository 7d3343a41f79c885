//! T-G12: several aggregators.

use std::time::Duration;

use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Form, KMS_HEALTH, TIMEOUT, failing, healthy};

const DEGRADED: &str = "KMSPluginsDegraded";

/// Two active aggregators: decisions depend only on the object, so that neither reverts the other's writes.
pub async fn concurrent_aggregators_converge(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "two", json!({ "expectedNodes": ["a", "b", "c"] })).await?;
    let nodes = [("a", vec![healthy("2"), healthy("1")]), ("b", vec![failing("2"), failing("1")])];
    let _reporters = fixture.reporters(KMS_HEALTH, "two", Form::Typed, &nodes);
    let user = fixture.plane.user("kms-aggregator", Some("system:masters"))?;
    let without_election = |program: testbed::process::Program| fixture.without_election(program);
    let _one = fixture.aggregator_as("one", &user, "kmshealth", without_election)?;
    fixture.until(KMS_HEALTH, "two", DEGRADED, "PluginError").await?;
    wait::until("the third node to be missing", TIMEOUT, || async {
        let condition =
            fixture.condition(KMS_HEALTH, "two", DEGRADED).await.map_err(|error| error.to_string())?;
        if condition.2.contains("c keyID=1 role=read NeverReported") { Ok(()) } else { Err(condition.2) }
    })
    .await?;
    let _other = fixture.aggregator_as("other", &user, "kmshealth", without_election)?;
    fixture.assert_no_writes_for(Duration::from_secs(20)).await?;
    Ok(())
}

pub async fn standby_takes_over_from_killed_leader(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "follows", json!({ "expectedNodes": ["a"] })).await?;
    let reporters = fixture.reporters(KMS_HEALTH, "follows", Form::Typed, &[("a", vec![healthy("1")])]);
    let user = fixture.plane.user("kms-aggregator", Some("system:masters"))?;
    let short_lease = |program: testbed::process::Program| {
        fixture
            .in_namespace(program)
            .flag("leader-elect-lease-duration", "6s")
            .flag("leader-elect-renew-deadline", "4s")
            .flag("leader-elect-retry-period", "500ms")
    };
    let leader = fixture.aggregator_as("one", &user, "kmshealth", short_lease)?;
    fixture.until(KMS_HEALTH, "follows", DEGRADED, "AsExpected").await?;
    let _standby = fixture.aggregator_as("other", &user, "kmshealth", short_lease)?;
    fixture.assert_no_writes_for(Duration::from_secs(5)).await?;
    drop(leader);
    reporters.set("a", &[failing("1")]);
    fixture.until(KMS_HEALTH, "follows", DEGRADED, "PluginError").await?;
    Ok(())
}
