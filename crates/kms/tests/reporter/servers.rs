//! API servers that refuse, hang, go and come back: nothing ends the reporter, and nothing is told in each round.

use std::time::{Duration, Instant};

use base64::Engine as _;
use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::cluster::openshift::FeatureSet;
use testbed::faults::fault_proxy::{Fault, FaultProxy, Matching, Refusal, Times, Verb};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};

use crate::ground::{Ground, SOON, Seen, define, place};
use crate::plugins::number;

const PUBLISHED: &str = "reports are published";
const NOT_PUBLISHED: &str = "reports cannot be published";

fn applies() -> Matching {
    Matching::any().verb(Verb::Patch).subresource("status")
}

/// An apply of entries as somebody else would send them; the answer is its code and its message.
async fn apply(ground: &Ground<'_>, manager: &str, entries: Value) -> Result<(u16, String), Error> {
    let body = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "KubeAPIServer", "metadata": { "name": ground.name },
        "status": { "encryptionStatus": { "healthReports": entries } },
    });
    let params = PatchParams::apply(manager).force();
    match ground.api("kubeapiserver").patch_status(&ground.name, &params, &Patch::Apply(&body)).await {
        Ok(_) => Ok((200, String::new())),
        Err(kube::Error::Api(status)) => Ok((status.code, status.message.clone())),
        Err(error) => Err(error.into()),
    }
}

/// T-A10: the hazards of the published schema, and that ours has none of them.
pub async fn the_published_schema_refuses_what_upstream_sends_and_takes_what_we_send(
    cx: Context,
) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let entry = |key: &str, status: &str| json!({ "nodeName": "upstream", "keyID": key, "status": status, "lastCheckedTime": "2026-05-18T10:00:00Z" });
    let with = |mut entry: Value, field: &str, value: &str| {
        entry[field] = value.into();
        entry
    };
    let good = || with(entry("1", "Healthy"), "remoteKeyID", "kek");
    assert_eq!(apply(&ground, "upstream", json!([good()])).await?.0, 200);
    let failing = with(entry("2", "Error"), "detail", "rpc error");
    for (entries, expected) in [
        (json!([good(), failing]), "remoteKeyID: Required value"),
        (json!([with(good(), "detail", "")]), "detail: Invalid value"),
        (json!([with(good(), "detail", &"x".repeat(1025))]), "detail: Too long"),
        (json!([with(entry("1", "Error"), "remoteKeyID", "")]), "remoteKeyID: Invalid value"),
    ] {
        let (code, message) = apply(&ground, "upstream", entries).await?;
        println!("the published schema answers {code}: {message}");
        assert!(code == 422 && message.contains(expected), "{code}: {message}");
    }
    let stored = ground.reports("kubeapiserver", "typed", "upstream").await?;
    assert!(
        stored.len() == 1 && stored[0].status == "Healthy",
        "the object still says that all is well: {stored:?}"
    );

    let (_sound, sick) = (ground.plugin(1)?, ground.plugin(2)?);
    let reporter = ground.reporter("ours").keys(&[2, 1]).start()?;
    ground.status(&reporter, 2, "Healthy").await?;
    sick.crash();
    ground.status(&reporter, 2, "Error").await?;
    sick.heal()?;
    sick.script(|script| script.healthz = Vec::new());
    ground.status(&reporter, 2, "Unhealthy").await?;
    ground.status(&reporter, 1, "Healthy").await?;
    assert_eq!(reporter.told(&[NOT_PUBLISHED]), 0, "{}", reporter.log());
    Ok(())
}

/// T-A1 and T-A2. Ten minutes of outage with OUTRIGGER_KMS_OUTAGE=600; by default five seconds.
pub async fn an_api_server_that_comes_late_or_goes_is_waited_for(cx: Context) -> TestResult {
    let plane = ControlPlane::on(&cx.site()?).start().await?;
    define(&plane, FeatureSet::TechPreview).await?;
    let ground = Ground::on_own(&cx, &plane).await?;
    let _plugin = ground.plugin(1)?;
    plane.stop_api_server()?;
    let reporter = ground.reporter("master-0").start()?;
    reporter.until_told(&[NOT_PUBLISHED, "unreachable"]).await?;
    plane.start_api_server().await?;
    let begin = Instant::now();
    let report = ground.status(&reporter, 1, "Healthy").await?;
    println!("first report {:?} after the API server was ready", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(5));

    plane.stop_api_server()?;
    let (memory, rounds) = (reporter.memory()?, reporter.rounds().await?);
    let outage = Duration::from_secs(number("OUTRIGGER_KMS_OUTAGE", 5));
    wait::throughout("the outage", outage, || async { reporter.process.check_alive() }).await?;
    assert!(reporter.rounds().await? > rounds + 3.0, "it goes on probing");
    let grown = reporter.memory()?.saturating_sub(memory);
    assert!(grown < 3 * 1024, "memory grew by {grown} KiB in {outage:?}");
    plane.start_api_server().await?;
    ground.until(&reporter, 1, "a report after the outage", |now| now.checked > report.checked).await?;
    reporter.until_told(&[PUBLISHED, "rounds_lost"]).await?;
    let told = reporter.told(&["ERROR"]);
    assert!(told <= 6, "told {told} times, and not once for each kind of failure:\n{}", reporter.log());
    Ok(())
}

/// T-A3, with a tenth of the times.
pub async fn a_slow_api_server_is_waited_for_as_long_as_allowed(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let _plugin = ground.plugin(1)?;
    let proxy = FaultProxy::recorded_in(plane, cx.logs().join("journal.jsonl")).await?;
    let slow = proxy.inject(Fault::Delay(Duration::from_millis(800)), applies(), Times::Always);
    let user = plane.admin().at(proxy.url());
    let reporter = ground.reporter("master-0").flag("--write-timeout=1500ms").for_user(&user)?.start()?;
    ground.status(&reporter, 1, "Healthy").await?;
    assert_eq!(reporter.told(&[NOT_PUBLISHED]), 0, "{}", reporter.log());
    slow.lift();
    let slower = proxy.inject(Fault::Delay(Duration::from_secs(20)), applies(), Times::Always);
    reporter.until_told(&[NOT_PUBLISHED, "timeout", "no answer within 1.5s"]).await?;
    slower.lift();
    let lost = reporter.metric("outrigger_kms_publishes_total", "outcome=\"stored\"").await?;
    reporter.until_metric("outrigger_kms_publishes_total", "outcome=\"stored\"", lost + 1.0).await?;
    Ok(())
}

/// T-A4.
pub async fn every_refusal_is_told_once_and_the_next_round_tries_again(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let _plugin = ground.plugin(1)?;
    let proxy = FaultProxy::recorded_in(plane, cx.logs().join("journal.jsonl")).await?;
    let user = plane.admin().at(proxy.url());
    let reporter = ground.reporter("master-0").every("100ms").for_user(&user)?.start()?;
    ground.status(&reporter, 1, "Healthy").await?;
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
            code => Fault::Answer(Refusal::of(StatusCode::from_u16(code)?)),
        };
        let (before, labels) = (reporter.told(&[NOT_PUBLISHED, outcome]), format!("outcome=\"{outcome}\""));
        let failed = reporter.metric("outrigger_kms_publishes_total", &labels).await?;
        let injected = proxy.inject(fault, applies(), Times::Always);
        reporter.until_metric("outrigger_kms_publishes_total", &labels, failed + 4.0).await?;
        injected.lift();
        assert_eq!(reporter.told(&[NOT_PUBLISHED, outcome]), before + 1, "{code}: {}", reporter.log());
        let stored = reporter.metric("outrigger_kms_publishes_total", "outcome=\"stored\"").await?;
        reporter.until_metric("outrigger_kms_publishes_total", "outcome=\"stored\"", stored + 2.0).await?;
    }
    Ok(())
}

/// T-A4, the path of 422 (1.8).
pub async fn a_report_that_is_refused_as_invalid_is_sent_in_its_smallest_form(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let plugin = ground.plugin(1)?;
    plugin.script(|script| script.healthz = b"sealed".to_vec());
    let proxy = FaultProxy::recorded_in(plane, cx.logs().join("journal.jsonl")).await?;
    let refusal = Refusal::of(StatusCode::UNPROCESSABLE_ENTITY).message("detail: must be a haiku");
    // The first of each two is refused, which is the full form: each rule counts only what those before it let through.
    for nth in 1..=40 {
        proxy.inject(Fault::Answer(refusal.clone()), applies(), Times::Nth(nth));
    }
    let user = plane.admin().at(proxy.url());
    let reporter = ground.reporter("master-0").for_user(&user)?.start()?;
    let smallest = |report: &Seen| report.detail.is_empty() && report.id.as_deref() == Some("unknown");
    let report = ground.until(&reporter, 1, "the smallest form", smallest).await?;
    assert_eq!(report.status, "Unhealthy");
    reporter.until_told(&["reports are published without details", "detail: must be a haiku"]).await?;
    assert_eq!(reporter.told(&[NOT_PUBLISHED]), 0, "{}", reporter.log());
    Ok(())
}

/// T-A5.
pub async fn an_object_that_comes_late_is_reported_on(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let _plugin = ground.plugin(1)?;
    ground.api("kubeapiserver").delete(&ground.name, &DeleteParams::default()).await?;
    let reporter = ground.reporter("master-0").start()?;
    reporter.until_told(&[NOT_PUBLISHED, "missing"]).await?;
    ground.create("kubeapiserver").await?;
    ground.status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// T-A6.
pub async fn a_kind_without_health_reports_is_told_and_probing_goes_on(cx: Context) -> TestResult {
    let plane = ControlPlane::on(&cx.site()?).start().await?;
    define(&plane, FeatureSet::Default).await?;
    let ground = Ground::on_own(&cx, &plane).await?;
    let plugin = ground.plugin(1)?;
    let reporter = ground.reporter("master-0").start()?;
    reporter.until_told(&[NOT_PUBLISHED, "rejected", "field not declared in schema"]).await?;
    let asked = plugin.calls().status;
    wait::until("more looks", SOON, || async {
        if plugin.calls().status > asked + 3 { Ok(()) } else { Err("none") }
    })
    .await?;
    assert_eq!(reporter.told(&[NOT_PUBLISHED]), 1, "{}", reporter.log());
    // Conditions are there in every feature set.
    let by_condition = ground.reporter("master-1").on("kubeapiserver", "condition").start()?;
    ground.status(&by_condition, 1, "Healthy").await?;
    define(&plane, FeatureSet::TechPreview).await?;
    ground.status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// T-A7.
pub async fn tokens_and_authorities_are_read_again(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let _plugin = ground.plugin(1)?;
    let (ns, folder) = (cx.namespace().await?, ground.folder.path());
    let accounts: Api<ServiceAccount> = Api::namespaced(ground.client.clone(), &ns);
    let metadata = ObjectMeta { name: Some("reporter".into()), ..ObjectMeta::default() };
    accounts
        .create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() })
        .await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": ns },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": "reporter", "namespace": ns }],
    });
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(ground.client.clone());
    bindings.patch(&ns, &PatchParams::apply("test"), &Patch::Apply(&binding)).await?;
    let wanted = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let issued = accounts.create_token_request("reporter", &PostParams::default(), &wanted).await?;
    let token = issued.status.ok_or("no token was issued")?.token;

    let (token_file, authority) = (folder.join("token"), folder.join("ca.crt"));
    std::fs::write(&token_file, "expired")?;
    std::fs::write(&authority, plane.front_proxy_authority().pem())?;
    let kubeconfig = folder.join("kubeconfig");
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": plane.url(), "certificate-authority": authority } }],
        "users": [{ "name": "u", "user": { "tokenFile": token_file } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
    });
    std::fs::write(&kubeconfig, document.to_string())?;
    let reporter = ground.reporter("master-0").by(&kubeconfig).start()?;
    reporter.until_told(&[NOT_PUBLISHED, "unreachable", "UnknownIssuer"]).await?;
    std::fs::write(&authority, plane.authority().pem())?;
    reporter.until_told(&[NOT_PUBLISHED, "unauthenticated"]).await?;
    std::fs::write(&token_file, &token)?;
    ground.status(&reporter, 1, "Healthy").await?;
    let secret = base64::prelude::BASE64_STANDARD.encode(&token);
    assert!(!reporter.log().contains(&token) && !reporter.log().contains(&secret), "the token is in the log");
    Ok(())
}

/// T-A8.
pub async fn another_server_is_used_when_the_first_is_dead(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let _plugin = ground.plugin(1)?;
    let dead = plane.admin().at("https://127.0.0.1:1");
    let by_address = ground
        .reporter("by-address")
        .for_user(&dead)?
        .flag(format!("--fallback-servers={}", plane.url()))
        .start()?;
    ground.status(&by_address, 1, "Healthy").await?;
    let file = plane.admin().write_kubeconfig(ground.folder.path())?;
    let by_file = ground
        .reporter("by-file")
        .for_user(&dead)?
        .flag(format!("--fallback-servers=https://127.0.0.1:2,{}", file.display()))
        .start()?;
    ground.status(&by_file, 1, "Healthy").await?;
    assert_eq!(by_file.told(&[NOT_PUBLISHED]), 0, "{}", by_file.log());
    Ok(())
}

/// T-A9.
pub async fn an_entry_that_another_manager_owns_is_taken_over(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let foreign = json!([{ "nodeName": "master-0", "keyID": "1", "status": "Healthy", "remoteKeyID": "old",
                           "lastCheckedTime": "2026-05-18T10:00:00Z" }]);
    assert_eq!(apply(&ground, "somebody", foreign).await?.0, 200);
    let reporter = ground.reporter("master-0").start()?;
    let report = ground.status(&reporter, 1, "Error").await?;
    assert_eq!(report.id.as_deref(), Some("old"), "what was known before is kept");
    let object = ground.object("kubeapiserver").await?;
    assert_eq!(place("kubeapiserver", &object)["healthReports"].as_array().map(Vec::len), Some(1));
    Ok(())
}
