//! Sidecar TLS with a real cert-manager: enabled, renewed, moved to another issuer or Secret, and disabled on a running node.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only recognizes #[test] functions")]

mod expiration;
#[path = "../node_operator/fixture.rs"]
#[expect(dead_code, reason = "other suites use the rest")]
mod fixture;
mod issued_secret;
mod permissions;

use std::time::Duration;

use api::cert_manager::Certificate;
use api::sei_node::{PlanPhase, Scheme, WaitingFor};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use testbed::cluster::cert_manager::CertManager;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, OTHER_IMAGE, TIMEOUT, message, reason};

testbed::suite![tls_lifecycle_on_a_running_node];

/// Longer than several requeues of a converged node.
const QUIET: Duration = Duration::from_secs(5);

async fn create_issuer(fixture: &Fixture<'_>, name: &str, spec: Value) -> Result<(), Error> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cert-manager.io", "v1", "Issuer"));
    let api: Api<DynamicObject> = Api::namespaced_with(fixture.client.clone(), &fixture.ns, &kind);
    let issuer = json!({
        "apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": { "name": name }, "spec": spec,
    });
    api.patch(name, &PatchParams::apply("test"), &Patch::Apply(&issuer)).await?;
    Ok(())
}

fn tls_from(name: &str) -> Value {
    json!({ "issuerName": name, "issuerKind": "Issuer", "secretName": null })
}

async fn read_certificate(fixture: &Fixture<'_>, secret: &str) -> Result<Vec<u8>, Error> {
    let secret = fixture.api::<Secret>().get(secret).await?;
    Ok(secret.data.unwrap_or_default().get("tls.crt").map(|bytes| bytes.0.clone()).unwrap_or_default())
}

/// One test on one node, since cert-manager is slow to start.
async fn tls_lifecycle_on_a_running_node(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let cert_manager = CertManager::start(fixture.plane).await?;
    create_issuer(&fixture, "one", json!({ "selfSigned": {} })).await?;
    create_issuer(&fixture, "two", json!({ "selfSigned": {} })).await?;
    create_issuer(&fixture, "bad", json!({ "ca": { "secretName": "missing" } })).await?;
    let operator =
        fixture.spawn_operator(|program| program.flag("pod-namespace", operator::install::NAMESPACE))?;
    fixture.create_ready("node", |_| {}).await?;
    expiration::wait_value(&fixture, &operator, "node", None).await?;
    image_and_tls_edit_is_one_pod_cycle(&fixture).await?;
    let first = expiration::wait_exported(&fixture, &operator, "node").await?;
    renewed_certificate_keeps_the_pod(&fixture).await?;
    let renewed = expiration::wait_exported(&fixture, &operator, "node").await?;
    assert!(renewed > first, "{renewed} follows {first}");
    issuer_change_replaces_the_pod_once(&fixture).await?;
    failing_issuer_is_reported_and_next_edit_applies(&fixture).await?;
    let own = issued_secret::create_own(&fixture).await?;
    tls_is_disabled(&fixture).await?;
    expiration::wait_value(&fixture, &operator, "node", None).await?;
    issued_secret::issued_secret_is_deleted_and_own_secret_stays(&fixture, &operator, &own).await?;
    permissions::shipped_rbac_is_sufficient_and_minimal(&fixture).await?;
    cert_manager.check_alive()?;
    operator.check_alive()?;
    assert!(fixture.sidecars.journal().duplicates().is_empty(), "a task was submitted twice");
    Ok(())
}

async fn image_and_tls_edit_is_one_pod_cycle(fixture: &Fixture<'_>) -> Result<(), Error> {
    let edit = json!({ "spec": { "image": OTHER_IMAGE, "sidecar": { "tls": tls_from("one") } } });
    fixture.edit("node", edit).await?;
    let during = fixture
        .wait_until("node", "the update has started", |_, status| {
            status.plan.as_ref().is_some_and(|plan| plan.generation == Some(2))
        })
        .await?;
    let status = during.status.unwrap_or_default();
    if status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Active) {
        assert_eq!(reason(&status, "NodeUpdateInProgress"), "UpdateAndTLSToggleStarted");
    }
    let node = fixture.wait_ready("node", "image and TLS are applied").await?;
    let status = node.status.unwrap_or_default();
    assert_eq!(status.current_image.as_deref(), Some(OTHER_IMAGE));
    let tls = status.current_sidecar_tls.clone().expect("the observed TLS");
    assert_eq!((tls.scheme, tls.issuer_name.as_deref()), (Scheme::Https, Some("one")));
    assert_eq!(reason(&status, "SidecarTLSSecretReady"), "TLSSecretReady");
    assert_eq!(fixture.pod_deletion_count()?, 1, "one pod cycle for both");
    fixture.assert_no_writes(QUIET).await?;
    issued_secret::secret_is_patched_once_and_costs_nothing_then(fixture).await
}

/// The proxy reloads its certificate when the content changes; the scripted sidecar does the same.
async fn renewed_certificate_keeps_the_pod(fixture: &Fixture<'_>) -> Result<(), Error> {
    let before = read_certificate(fixture, "node-sidecar-tls").await?;
    let pod = fixture.pod("node").await?.uid();
    // cert-manager issues a deleted certificate again: a common way to force a renewal.
    fixture.api::<Secret>().delete("node-sidecar-tls", &DeleteParams::default()).await?;
    wait::until("a new certificate", TIMEOUT, || async {
        let now = read_certificate(fixture, "node-sidecar-tls").await.map_err(|error| error.to_string())?;
        if now != before && !now.is_empty() { Ok(()) } else { Err("the certificate is unchanged".to_owned()) }
    })
    .await?;
    issued_secret::wait_owned(fixture, "node").await?;
    fixture.sidecar("node").restart();
    let restarts = fixture.sidecar("node").restarts();
    fixture.wait_ready("node", "it is marked ready over the new certificate").await?;
    fixture.sidecar("node").wait_ready(TIMEOUT).await?;
    assert_eq!(fixture.sidecar("node").restarts(), restarts);
    assert_eq!(fixture.pod("node").await?.uid(), pod, "the same pod");
    assert_eq!(fixture.pod_deletion_count()?, 1);
    Ok(())
}

async fn issuer_change_replaces_the_pod_once(fixture: &Fixture<'_>) -> Result<(), Error> {
    let before = read_certificate(fixture, "node-sidecar-tls").await?;
    fixture.edit("node", json!({ "spec": { "sidecar": { "tls": tls_from("two") } } })).await?;
    let node = fixture.wait_ready("node", "the second issuer").await?;
    let tls = node.status.unwrap_or_default().current_sidecar_tls.expect("the observed TLS");
    assert_eq!(tls.issuer_name.as_deref(), Some("two"));
    assert_ne!(read_certificate(fixture, "node-sidecar-tls").await?, before, "a new certificate was issued");
    issued_secret::wait_owned(fixture, "node").await?;
    assert_eq!(fixture.pod_deletion_count()?, 2, "one for the issuer change");
    Ok(())
}

async fn failing_issuer_is_reported_and_next_edit_applies(fixture: &Fixture<'_>) -> Result<(), Error> {
    fixture.edit("node", json!({ "spec": { "sidecar": { "tls": tls_from("bad") } } })).await?;
    let node = fixture
        .wait_until("node", "the failing issuer is reported", |_, status| {
            let waiting = status.waiting_for.as_ref();
            let is_reported = |waiting: &WaitingFor| {
                waiting.target == "Certificate/node-sidecar-tls"
                    && waiting
                        .message
                        .as_ref()
                        .is_some_and(|message| message.contains("is waiting for issuer bad: "))
            };
            waiting.is_some_and(is_reported)
                && reason(status, "SidecarTLSSecretReady") == "CertificateNotReady"
        })
        .await?;
    let status = node.status.unwrap_or_default();
    println!("failing issuer: {}", message(&status, "SidecarTLSSecretReady"));
    assert_eq!(reason(&status, "SidecarReady"), "Ready", "the node keeps running");
    assert_eq!(fixture.pod_deletion_count()?, 2);
    fixture.edit("node", json!({ "spec": { "sidecar": { "tls": tls_from("one") } } })).await?;
    fixture.wait_ready("node", "the first issuer").await?;
    Ok(())
}

async fn tls_is_disabled(fixture: &Fixture<'_>) -> Result<(), Error> {
    fixture.edit("node", json!({ "spec": { "sidecar": { "tls": null } } })).await?;
    let node = fixture.wait_ready("node", "TLS is disabled").await?;
    let tls = node.status.unwrap_or_default().current_sidecar_tls.expect("the observed TLS");
    assert_eq!((tls.scheme, tls.secret_name), (Scheme::Http, None));
    assert_eq!(fixture.pod_deletion_count()?, 4, "enable, two issuer changes, disable");
    let certificate = fixture.api::<Certificate>().get_opt("node-sidecar-tls").await?;
    assert!(certificate.is_none(), "the Certificate is deleted: {certificate:?}");
    fixture.assert_no_writes(QUIET).await
}
