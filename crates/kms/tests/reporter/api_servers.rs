//! API servers that reject, hang, stop and come back: the reporter never ends, and does not log every round.

use std::time::{Duration, Instant};

use base64::Engine as _;
use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::cluster::openshift::FeatureSet;
use testbed::faults::fault_proxy::{ErrorResponse, Fault, FaultProxy, RequestMatcher, Times, Verb};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};

use crate::fixture::{Fixture, ObservedReport, TIMEOUT, install_crds, report_holder};
use crate::plugins::number;

const PUBLISHED: &str = "reports published";
const NOT_PUBLISHED: &str = "failed to publish reports";

fn applies() -> RequestMatcher {
    RequestMatcher::any().verb(Verb::Patch).subresource("status")
}

/// Applies reports as another field manager, and returns status code and message.
async fn apply(fixture: &Fixture<'_>, manager: &str, entries: Value) -> Result<(u16, String), Error> {
    let body = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "KubeAPIServer", "metadata": { "name": fixture.name },
        "status": { "encryptionStatus": { "healthReports": entries } },
    });
    let params = PatchParams::apply(manager).force();
    match fixture.api("kubeapiserver").patch_status(&fixture.name, &params, &Patch::Apply(&body)).await {
        Ok(_) => Ok((200, String::new())),
        Err(kube::Error::Api(status)) => Ok((status.code, status.message.clone())),
        Err(error) => Err(error.into()),
    }
}

/// T-A10: the published schema rejects some reports of the upstream reporter, and accepts all of ours.
pub async fn published_schema_accepts_all_our_reports(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let entry = |key: &str, status: &str| json!({ "nodeName": "upstream", "keyID": key, "status": status, "lastCheckedTime": "2026-05-18T10:00:00Z" });
    let with = |mut entry: Value, field: &str, value: &str| {
        entry[field] = value.into();
        entry
    };
    let valid = || with(entry("1", "Healthy"), "remoteKeyID", "kek");
    assert_eq!(apply(&fixture, "upstream", json!([valid()])).await?.0, 200);
    let failing = with(entry("2", "Error"), "detail", "rpc error");
    for (entries, expected) in [
        (json!([valid(), failing]), "remoteKeyID: Required value"),
        (json!([with(valid(), "detail", "")]), "detail: Invalid value"),
        (json!([with(valid(), "detail", &"x".repeat(1025))]), "detail: Too long"),
        (json!([with(entry("1", "Error"), "remoteKeyID", "")]), "remoteKeyID: Invalid value"),
    ] {
        let (code, message) = apply(&fixture, "upstream", entries).await?;
        println!("the published schema returns {code}: {message}");
        assert!(code == 422 && message.contains(expected), "{code}: {message}");
    }
    let stored = fixture.reports("kubeapiserver", "typed", "upstream").await?;
    assert!(
        stored.len() == 1 && stored[0].status == "Healthy",
        "the object still reports only the healthy plugin: {stored:?}"
    );

    let (_healthy, failing) = (fixture.start_plugin(1)?, fixture.start_plugin(2)?);
    let reporter = fixture.reporter("ours").keys(&[2, 1]).start()?;
    fixture.until_status(&reporter, 2, "Healthy").await?;
    failing.crash();
    fixture.until_status(&reporter, 2, "Error").await?;
    failing.recover()?;
    failing.script(|script| script.healthz = Vec::new());
    fixture.until_status(&reporter, 2, "Unhealthy").await?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    assert_eq!(reporter.count_logged(&[NOT_PUBLISHED]), 0, "{}", reporter.log());
    Ok(())
}

/// T-A1, T-A2: the API server starts late, and stops for a while (OUTRIGGER_KMS_OUTAGE seconds; default 5, full form 600).
pub async fn reporter_survives_api_server_outage(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).start().await?;
    install_crds(&plane, FeatureSet::TechPreview)?;
    let fixture = Fixture::on_own_plane(&cx, &plane).await?;
    let _plugin = fixture.start_plugin(1)?;
    plane.stop_api_server()?;
    let reporter = fixture.reporter("master-0").start()?;
    reporter.until_logged(&[NOT_PUBLISHED, "unreachable"]).await?;
    plane.start_api_server().await?;
    let start = Instant::now();
    let report = fixture.until_status(&reporter, 1, "Healthy").await?;
    println!("first report {:?} after the API server was ready", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5));

    plane.stop_api_server()?;
    let (memory, rounds) = (reporter.memory()?, reporter.rounds().await?);
    let outage = Duration::from_secs(number("OUTRIGGER_KMS_OUTAGE", 5));
    wait::throughout("the outage", outage, || async { reporter.process.check_alive() }).await?;
    assert!(reporter.rounds().await? > rounds + 3.0, "probing continues");
    let grown = reporter.memory()?.saturating_sub(memory);
    assert!(grown < 3 * 1024, "memory grew by {grown} KiB in {outage:?}");
    plane.start_api_server().await?;
    fixture
        .until_report(&reporter, 1, "a report after the outage", |now| now.checked > report.checked)
        .await?;
    reporter.until_logged(&[PUBLISHED, "failed_rounds"]).await?;
    let errors = reporter.count_logged(&["ERROR"]);
    assert!(errors <= 6, "{errors} errors logged, not one per kind of failure:\n{}", reporter.log());
    Ok(())
}

/// T-A3, ten times faster: an API server that is slower than the write timeout.
pub async fn slow_api_server_times_out(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::on(&cx, plane).await?;
    let _plugin = fixture.start_plugin(1)?;
    let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("journal.jsonl")).await?;
    let slow = proxy.inject(Fault::Delay(Duration::from_millis(800)), applies(), Times::Always);
    let user = plane.admin().at(proxy.url());
    let reporter = fixture.reporter("master-0").flag("--write-timeout=1500ms").for_user(&user)?.start()?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    assert_eq!(reporter.count_logged(&[NOT_PUBLISHED]), 0, "{}", reporter.log());
    slow.remove();
    let slower = proxy.inject(Fault::Delay(Duration::from_secs(20)), applies(), Times::Always);
    reporter.until_logged(&[NOT_PUBLISHED, "timeout", "no response within 1.5s"]).await?;
    slower.remove();
    let stored = reporter.metric("outrigger_kms_publishes_total", "outcome=\"stored\"").await?;
    reporter.until_metric("outrigger_kms_publishes_total", "outcome=\"stored\"", stored + 1.0).await?;
    Ok(())
}

/// T-A4: every kind of error response.
pub async fn every_api_error_is_logged_once_and_retried(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::on(&cx, plane).await?;
    let _plugin = fixture.start_plugin(1)?;
    let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("journal.jsonl")).await?;
    let user = plane.admin().at(proxy.url());
    let reporter = fixture.reporter("master-0").interval("100ms").for_user(&user)?.start()?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    for (code, outcome) in [
        (400, "rejected"),
        (401, "unauthenticated"),
        (403, "forbidden"),
        (404, "missing"),
        (409, "unavailable"),
        (422, "rejected"),
        (429, "unavailable"),
        (500, "unavailable"),
        (503, "unavailable"),
        (0, "unreachable"),
    ] {
        let fault = match code {
            0 => Fault::Reset,
            code => Fault::Respond(ErrorResponse::new(StatusCode::from_u16(code)?)),
        };
        let (before, labels) =
            (reporter.count_logged(&[NOT_PUBLISHED, outcome]), format!("outcome=\"{outcome}\""));
        let failed = reporter.metric("outrigger_kms_publishes_total", &labels).await?;
        let injected = proxy.inject(fault, applies(), Times::Always);
        reporter.until_metric("outrigger_kms_publishes_total", &labels, failed + 4.0).await?;
        injected.remove();
        assert_eq!(
            reporter.count_logged(&[NOT_PUBLISHED, outcome]),
            before + 1,
            "{code}: {}",
            reporter.log()
        );
        let stored = reporter.metric("outrigger_kms_publishes_total", "outcome=\"stored\"").await?;
        reporter.until_metric("outrigger_kms_publishes_total", "outcome=\"stored\"", stored + 2.0).await?;
    }
    Ok(())
}

/// T-A4, for 422: the report is sent without details.
pub async fn invalid_report_is_sent_in_smallest_form(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::on(&cx, plane).await?;
    let plugin = fixture.start_plugin(1)?;
    plugin.script(|script| script.healthz = b"sealed".to_vec());
    let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("journal.jsonl")).await?;
    let refusal = ErrorResponse::new(StatusCode::UNPROCESSABLE_ENTITY).message("detail: must be a haiku");
    // Rejects every second request, which is the full form: each rule counts only requests that the rules before it let pass.
    for nth in 1..=40 {
        proxy.inject(Fault::Respond(refusal.clone()), applies(), Times::Nth(nth));
    }
    let user = plane.admin().at(proxy.url());
    let reporter = fixture.reporter("master-0").for_user(&user)?.start()?;
    let smallest =
        |report: &ObservedReport| report.detail.is_empty() && report.id.as_deref() == Some("unknown");
    let report = fixture.until_report(&reporter, 1, "the smallest form", smallest).await?;
    assert_eq!(report.status, "Unhealthy");
    reporter.until_logged(&["reports published without details", "detail: must be a haiku"]).await?;
    assert_eq!(reporter.count_logged(&[NOT_PUBLISHED]), 0, "{}", reporter.log());
    Ok(())
}

/// T-A5: the object is created after the reporter starts.
pub async fn object_created_late_gets_reports(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let _plugin = fixture.start_plugin(1)?;
    fixture.api("kubeapiserver").delete(&fixture.name, &DeleteParams::default()).await?;
    let reporter = fixture.reporter("master-0").start()?;
    reporter.until_logged(&[NOT_PUBLISHED, "missing"]).await?;
    fixture.create("kubeapiserver").await?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// T-A6: the CRD has no healthReports field.
pub async fn schema_without_health_reports_is_logged(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).start().await?;
    install_crds(&plane, FeatureSet::Default)?;
    let fixture = Fixture::on_own_plane(&cx, &plane).await?;
    let plugin = fixture.start_plugin(1)?;
    let reporter = fixture.reporter("master-0").start()?;
    reporter.until_logged(&[NOT_PUBLISHED, "rejected", "field not declared in schema"]).await?;
    let calls = plugin.calls().status;
    wait::until("more probes", TIMEOUT, || async {
        if plugin.calls().status > calls + 3 { Ok(()) } else { Err("none") }
    })
    .await?;
    assert_eq!(reporter.count_logged(&[NOT_PUBLISHED]), 1, "{}", reporter.log());
    // Conditions exist in every feature set.
    let by_condition = fixture.reporter("master-1").on("kubeapiserver", "condition").start()?;
    fixture.until_status(&by_condition, 1, "Healthy").await?;
    install_crds(&plane, FeatureSet::TechPreview)?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// T-A7: token and CA bundle are rotated.
pub async fn rotated_token_and_ca_are_reloaded(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::on(&cx, plane).await?;
    let _plugin = fixture.start_plugin(1)?;
    let (ns, dir) = (cx.namespace().await?, fixture.dir.path());
    let accounts: Api<ServiceAccount> = Api::namespaced(fixture.client.clone(), &ns);
    let metadata = ObjectMeta { name: Some("reporter".into()), ..ObjectMeta::default() };
    accounts
        .create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() })
        .await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": ns },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": "reporter", "namespace": ns }],
    });
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(fixture.client.clone());
    bindings.patch(&ns, &PatchParams::apply("test"), &Patch::Apply(&binding)).await?;
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let issued = accounts.create_token_request("reporter", &PostParams::default(), &request).await?;
    let token = issued.status.ok_or("no token was issued")?.token;

    let (token_file, ca_file) = (dir.join("token"), dir.join("ca.crt"));
    std::fs::write(&token_file, "expired")?;
    std::fs::write(&ca_file, plane.front_proxy_ca().pem())?;
    let kubeconfig = dir.join("kubeconfig");
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": plane.url(), "certificate-authority": ca_file } }],
        "users": [{ "name": "u", "user": { "tokenFile": token_file } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
    });
    std::fs::write(&kubeconfig, document.to_string())?;
    let reporter = fixture.reporter("master-0").kubeconfig(&kubeconfig).start()?;
    reporter.until_logged(&[NOT_PUBLISHED, "unreachable", "UnknownIssuer"]).await?;
    std::fs::write(&ca_file, plane.ca().pem())?;
    reporter.until_logged(&[NOT_PUBLISHED, "unauthenticated"]).await?;
    std::fs::write(&token_file, &token)?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    let secret = base64::prelude::BASE64_STANDARD.encode(&token);
    assert!(!reporter.log().contains(&token) && !reporter.log().contains(&secret), "the token is in the log");
    Ok(())
}

/// T-A8: the first API server is unreachable.
pub async fn fallback_server_is_used(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::on(&cx, plane).await?;
    let _plugin = fixture.start_plugin(1)?;
    let dead = plane.admin().at("https://127.0.0.1:1");
    let by_url = fixture
        .reporter("by-url")
        .for_user(&dead)?
        .flag(format!("--fallback-servers={}", plane.url()))
        .start()?;
    fixture.until_status(&by_url, 1, "Healthy").await?;
    let file = plane.admin().write_kubeconfig(fixture.dir.path())?;
    let by_file = fixture
        .reporter("by-file")
        .for_user(&dead)?
        .flag(format!("--fallback-servers=https://127.0.0.1:2,{}", file.display()))
        .start()?;
    fixture.until_status(&by_file, 1, "Healthy").await?;
    assert_eq!(by_file.count_logged(&[NOT_PUBLISHED]), 0, "{}", by_file.log());
    Ok(())
}

/// T-A9: another field manager owns the report.
pub async fn report_of_another_manager_is_taken_over(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let foreign = json!([{ "nodeName": "master-0", "keyID": "1", "status": "Healthy", "remoteKeyID": "old",
                           "lastCheckedTime": "2026-05-18T10:00:00Z" }]);
    assert_eq!(apply(&fixture, "another-manager", foreign).await?.0, 200);
    let reporter = fixture.reporter("master-0").start()?;
    let report = fixture.until_status(&reporter, 1, "Error").await?;
    assert_eq!(report.id.as_deref(), Some("old"), "the previous key id is kept");
    let object = fixture.object("kubeapiserver").await?;
    assert_eq!(report_holder("kubeapiserver", &object)["healthReports"].as_array().map(Vec::len), Some(1));
    Ok(())
}
