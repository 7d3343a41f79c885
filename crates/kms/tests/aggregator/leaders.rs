//! T-G12: several aggregators.

use std::time::Duration;

use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::ground::{Form, Ground, OURS, SOON, sick, well};

const DEGRADED: &str = "KMSPluginsDegraded";

/// Two that were both told to act: what follows depends on the object alone, so that neither undoes what the other wrote.
pub async fn two_that_both_believe_to_lead_agree_and_rest(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.object(OURS, "two", json!({ "expectedNodes": ["a", "b", "c"] })).await?;
    let nodes = [("a", vec![well("2"), well("1")]), ("b", vec![sick("2"), sick("1")])];
    let _reporters = ground.reporters(OURS, "two", Form::Typed, &nodes);
    let user = ground.plane.user("kms-aggregator", Some("system:masters"))?;
    let alone = |program: testbed::process::Program| ground.alone(program);
    let _one = ground.aggregator_as("one", &user, "kmshealth", alone)?;
    ground.until(OURS, "two", DEGRADED, "PluginError").await?;
    wait::until("the third to be missed", SOON, || async {
        let seen = ground.condition(OURS, "two", DEGRADED).await.map_err(|error| error.to_string())?;
        if seen.2.contains("c keyID=1 role=read NeverReported") { Ok(()) } else { Err(seen.2) }
    })
    .await?;
    let _other = ground.aggregator_as("other", &user, "kmshealth", alone)?;
    ground.rests_for(Duration::from_secs(20)).await?;
    Ok(())
}

pub async fn one_that_is_killed_is_followed_by_the_other(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.object(OURS, "follows", json!({ "expectedNodes": ["a"] })).await?;
    let reporters = ground.reporters(OURS, "follows", Form::Typed, &[("a", vec![well("1")])]);
    let user = ground.plane.user("kms-aggregator", Some("system:masters"))?;
    let short = |program: testbed::process::Program| {
        ground
            .here(program)
            .flag("leader-elect-lease-duration", "6s")
            .flag("leader-elect-renew-deadline", "4s")
            .flag("leader-elect-retry-period", "500ms")
    };
    let one = ground.aggregator_as("one", &user, "kmshealth", short)?;
    ground.until(OURS, "follows", DEGRADED, "AsExpected").await?;
    let _other = ground.aggregator_as("other", &user, "kmshealth", short)?;
    ground.rests_for(Duration::from_secs(5)).await?;
    drop(one);
    reporters.set("a", &[sick("1")]);
    ground.until(OURS, "follows", DEGRADED, "PluginError").await?;
    Ok(())
}
