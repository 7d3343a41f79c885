//! Refused writes: each ends the attempt of its reconcile, is retried with backoff, and is in a condition with the message of the
//! API server.

use std::fmt::Debug;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use testbed::cluster::control_plane::AuditedRequest;
use testbed::faults::fault_proxy::{ErrorResponse, Fault, FaultProxy, RequestMatcher, Resource, Times, Verb};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, TIMEOUT, message, reason};
use crate::policy::Policy;

/// How long a refused repair is observed.
const REFUSED: Duration = Duration::from_secs(10);

/// Requests in that time: with a backoff from 200 ms there are about six. Without one there were 200 per reconcile.
const MAX_REFUSED_REQUESTS: usize = 12;

/// Deletes the Service of a node, and expects that its refused restoration is reported with this text and retried with backoff.
/// `count` returns the number of refused requests.
async fn expect_refusal<E: Debug>(
    fixture: &Fixture<'_>,
    text: &str,
    count: impl Fn() -> Result<usize, E>,
) -> TestResult {
    fixture.delete::<Service>("full").await?;
    let node = fixture
        .wait_until("full", "the refusal is reported", |_, status| {
            reason(status, "SpecApplied") == "WriteRefused" && message(status, "SpecApplied").contains(text)
        })
        .await?;
    let status = node.status.clone().unwrap_or_default();
    assert_eq!(reason(&status, "Ready"), "SpecNotApplied");
    assert!(message(&status, "Ready").contains(text), "{status:?}");
    wait::throughout("one status write and few requests", REFUSED, || async {
        let now = fixture.nodes().get("full").await.map_err(|error| error.to_string())?;
        let (refused, is_same) = (count().map_err(|error| format!("{error:?}"))?, now.status == node.status);
        if is_same && refused <= MAX_REFUSED_REQUESTS {
            Ok(())
        } else {
            Err(format!("{refused} requests, {:?}", now.status))
        }
    })
    .await?;
    assert!(count().expect("a count") > 1, "the repair is retried");
    Ok(())
}

/// Waits until the API server refuses to create a Service with this text.
async fn wait_refused(fixture: &Fixture<'_>, text: &str) -> Result<(), Error> {
    wait::until("the refusal", TIMEOUT, || async {
        let service = json!({ "metadata": { "name": "probe" }, "spec": { "ports": [{ "port": 80 }] } });
        let service: Service = serde_json::from_value(service).map_err(|error| error.to_string())?;
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        match fixture.api::<Service>().create(&dry_run, &service).await {
            Err(kube::Error::Api(status)) if status.message.contains(text) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// Returns the number of refused writes of Services, by the audit log.
fn audited(fixture: &Fixture<'_>) -> Result<usize, Error> {
    let is_refused = |write: &AuditedRequest| write.resource == "services" && write.code >= 400;
    Ok(fixture.writes()?.into_iter().filter(is_refused).count())
}

/// Expects that a refusal is over: the object is restored, and the node is ready.
async fn expect_recovery(fixture: &Fixture<'_>) -> TestResult {
    fixture.wait_ready("full", "it is ready after the repair").await?;
    fixture.api::<Service>().get("full").await?;
    Ok(())
}

/// Denies Services with a policy that has this reason.
async fn deny_services(cx: &Context, cause: &str) -> TestResult {
    let fixture = Fixture::new(cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"], "operations": ["CREATE"],
    });
    let frozen = json!({ "expression": "false", "message": "Services are frozen", "reason": cause });
    let policy = Policy::deny_unless(&fixture, rule, frozen).await?;
    wait_refused(&fixture, "frozen").await?;
    let refused = expect_refusal(&fixture, "Services are frozen", || audited(&fixture)).await;
    policy.remove().await?;
    refused?;
    expect_recovery(&fixture).await
}

pub async fn forbidden_repair_is_reported_and_backs_off(cx: Context) -> TestResult {
    deny_services(&cx, "Forbidden").await
}

/// The status code of a policy is that of an invalid object. The object is valid, and the policy may change.
pub async fn repair_denied_as_invalid_is_reported_and_backs_off(cx: Context) -> TestResult {
    deny_services(&cx, "Invalid").await
}

pub async fn repair_beyond_a_quota_is_reported_and_backs_off(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let quota = json!({ "metadata": { "name": "frozen" }, "spec": { "hard": { "services": "0" } } });
    let quotas = fixture.api::<ResourceQuota>();
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    wait_refused(&fixture, "exceeded quota: frozen").await?;
    expect_refusal(&fixture, "exceeded quota: frozen", || audited(&fixture)).await?;
    quotas.delete("frozen", &DeleteParams::default()).await?;
    expect_recovery(&fixture).await
}

/// What the API server answers to a write of a Service.
async fn refuse_with(cx: &Context, code: StatusCode, text: &str, expected: &str) -> TestResult {
    let mut fixture = Fixture::new(cx).await?;
    let proxy = FaultProxy::start_with_journal(fixture.plane, cx.logs().join("fault-proxy.jsonl")).await?;
    fixture.server = proxy.url().into();
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let writes = RequestMatcher::any().verb(Verb::Patch).resource(Resource::of::<Service>());
    let response = ErrorResponse::new(code).message(text);
    let refusal = proxy.inject(Fault::Respond(response), writes, Times::Always);
    let count = || usize::try_from(refusal.fired());
    expect_refusal(&fixture, expected, count).await?;
    refusal.remove();
    expect_recovery(&fixture).await?;
    proxy.check()?;
    Ok(())
}

pub async fn repair_during_an_overload_is_reported_and_backs_off(cx: Context) -> TestResult {
    refuse_with(&cx, StatusCode::TOO_MANY_REQUESTS, "too many requests", "Service: too many requests").await
}

pub async fn repair_during_an_outage_is_reported_and_backs_off(cx: Context) -> TestResult {
    refuse_with(&cx, StatusCode::SERVICE_UNAVAILABLE, "etcd has no leader", "Service: etcd has no leader")
        .await
}

pub async fn repair_of_a_missing_kind_is_reported_and_backs_off(cx: Context) -> TestResult {
    let text = "the server could not find the requested resource";
    let expected = format!("Service: the API server does not serve this kind: {text}");
    refuse_with(&cx, StatusCode::NOT_FOUND, text, &expected).await
}

/// A set-up is refused as well: the plan waits, and the node is not Failed.
pub async fn setup_beyond_a_quota_waits_for_it(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let quota = json!({ "metadata": { "name": "frozen" }, "spec": { "hard": { "services": "0" } } });
    let quotas = fixture.api::<ResourceQuota>();
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    wait_refused(&fixture, "exceeded quota: frozen").await?;
    fixture.create("full", |_: &mut Value| {}).await?;
    let node = fixture
        .wait_until("full", "the plan waits", |_, status| {
            let waiting = status.waiting_for.as_ref().filter(|waiting| waiting.what == "Service");
            let message = waiting.and_then(|waiting| waiting.message.as_deref());
            message.is_some_and(|message| message.contains("exceeded quota: frozen"))
        })
        .await?;
    let status = node.status.unwrap_or_default();
    assert_eq!((reason(&status, "SpecApplied"), reason(&status, "Ready")), ("WriteRefused", "Initializing"));
    quotas.delete("frozen", &DeleteParams::default()).await?;
    expect_recovery(&fixture).await
}
