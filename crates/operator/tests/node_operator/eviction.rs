//! Evictions of validators: blocked by a PodDisruptionBudget, unless an annotation allows them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::{DeleteParams, EvictParams};
use serde_json::{Value, json};
use testbed::cluster::control_plane::AuditedRequest;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, TIMEOUT};

/// How long an eviction may take. The client repeats one that the API server blocks with code 429.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Waits until the disruption controller has observed a budget that allows this many evictions of the single pod.
async fn wait_budget(fixture: &Fixture<'_>, allowed: i32) -> Result<PodDisruptionBudget, Error> {
    let what = format!("it allows {allowed} unavailable pods");
    let is_observed = |budget: &PodDisruptionBudget| {
        let observed = budget.status.as_ref().and_then(|status| status.observed_generation);
        let max = budget.spec.as_ref().and_then(|spec| spec.max_unavailable.clone());
        max == Some(IntOrString::Int(allowed)) && observed == budget.metadata.generation
    };
    fixture.wait_until_object::<PodDisruptionBudget>("val", &what, is_observed).await
}

async fn annotate(fixture: &Fixture<'_>, value: Value) -> Result<(), Error> {
    let annotations = json!({ "outrigger.dev/allow-eviction": value });
    fixture.edit("val", json!({ "metadata": { "annotations": annotations } })).await.map(drop)
}

/// Tries to evict the pod of the validator. Returns whether it is evicted.
async fn evict(fixture: &Fixture<'_>) -> Result<bool, Error> {
    let (pods, params) = (fixture.api::<Pod>(), EvictParams::default());
    match tokio::time::timeout(ATTEMPT, pods.evict("val-0", &params)).await {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(kube::Error::Api(status))) if status.code == 429 => Ok(false),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

pub async fn validator_is_evicted_only_with_the_annotation(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let validator = |node: &mut Value| {
        node["spec"]["fullNode"] = Value::Null;
        node["spec"]["validator"] = json!({});
    };
    fixture.create_ready("val", validator).await?;
    let budgets = fixture.api::<PodDisruptionBudget>();
    assert!(budgets.get_opt("full").await?.is_none(), "only validators have a budget");
    wait_budget(&fixture, 0).await?;
    let pod = fixture.pod("val").await?;
    assert!(!evict(&fixture).await?, "the eviction was not blocked");
    let is_blocked = |request: &AuditedRequest| {
        request.namespace == fixture.ns && request.subresource == "eviction" && request.code == 429
    };
    assert!(!fixture.plane.audit().requests(is_blocked)?.is_empty(), "blocked by the budget");
    budgets.delete("val", &DeleteParams::default()).await?;
    wait_budget(&fixture, 0).await?;
    annotate(&fixture, json!("true")).await?;
    wait_budget(&fixture, 1).await?;
    wait::until("the eviction", TIMEOUT, || async {
        match evict(&fixture).await {
            Ok(true) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    let is_new = |now: &Pod| now.uid() != pod.uid();
    fixture.wait_until_object::<Pod>("val-0", "it is a new pod", is_new).await?;
    annotate(&fixture, Value::Null).await?;
    wait_budget(&fixture, 0).await?;
    fixture.wait_ready("val", "it runs again").await?;
    assert_eq!(fixture.pod_deletion_count()?, 0, "the operator deletes no pod");
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    Ok(())
}
