//! TLS of sidecars with the real cert-manager: switched on, swapped, renewed and switched off on running nodes.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

#[path = "../node_operator/ground.rs"]
#[expect(dead_code, reason = "other suites use more of it")]
mod ground;
mod rights;

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

use crate::ground::{Ground, OTHER_IMAGE, SOON, is_ready, message, reason};

testbed::suite![
    tls_is_switched_on_renewed_swapped_and_switched_off_on_a_running_node_and_a_bad_issuer_is_named
];

/// Long enough for several looks at a node at rest.
const A_WHILE: Duration = Duration::from_secs(5);

async fn issuer(ground: &Ground<'_>, name: &str, spec: Value) -> Result<(), Error> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cert-manager.io", "v1", "Issuer"));
    let api: Api<DynamicObject> = Api::namespaced_with(ground.client.clone(), &ground.ns, &kind);
    let issuer = json!({
        "apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": { "name": name }, "spec": spec,
    });
    api.patch(name, &PatchParams::apply("test"), &Patch::Apply(&issuer)).await?;
    Ok(())
}

fn by_issuer(name: &str) -> Value {
    json!({ "issuerName": name, "issuerKind": "Issuer", "secretName": null })
}

async fn certificate_in(ground: &Ground<'_>, secret: &str) -> Result<Vec<u8>, Error> {
    let secret = ground.api::<Secret>().get(secret).await?;
    Ok(secret.data.unwrap_or_default().get("tls.crt").map(|bytes| bytes.0.clone()).unwrap_or_default())
}

/// A story on one node, since cert-manager takes its time to start.
async fn tls_is_switched_on_renewed_swapped_and_switched_off_on_a_running_node_and_a_bad_issuer_is_named(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let cert_manager = CertManager::on(ground.plane).await?;
    issuer(&ground, "one", json!({ "selfSigned": {} })).await?;
    issuer(&ground, "two", json!({ "selfSigned": {} })).await?;
    issuer(&ground, "bad", json!({ "ca": { "secretName": "nobody-made-it" } })).await?;
    let operator = ground.start(|program| program.flag("pod-namespace", operator::install::NAMESPACE))?;
    ground.running("node", |_| {}).await?;
    image_and_tls_together_are_one_pod_cycle(&ground).await?;
    a_renewed_certificate_replaces_no_pod(&ground).await?;
    an_issuer_swap_replaces_the_pod_once(&ground).await?;
    an_issuer_that_cannot_issue_is_named_and_the_next_edit_is_taken_up(&ground).await?;
    tls_is_switched_off(&ground).await?;
    rights::the_operator_may_do_what_it_does_and_nothing_else(&ground).await?;
    cert_manager.check_alive()?;
    operator.check_alive()?;
    assert!(ground.sidecars.journal().repeats().is_empty(), "a task was given twice");
    Ok(())
}

async fn image_and_tls_together_are_one_pod_cycle(ground: &Ground<'_>) -> Result<(), Error> {
    let edit = json!({ "spec": { "image": OTHER_IMAGE, "sidecar": { "tls": by_issuer("one") } } });
    ground.edit("node", edit).await?;
    let during = ground
        .until("node", "the update has begun", |_, status| {
            status.plan.as_ref().is_some_and(|plan| plan.generation == Some(2))
        })
        .await?;
    let said = during.status.unwrap_or_default();
    if said.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Active) {
        assert_eq!(reason(&said, "NodeUpdateInProgress"), "UpdateAndTLSToggleStarted");
    }
    let node = ground.until("node", "image and TLS", is_ready).await?;
    let status = node.status.unwrap_or_default();
    assert_eq!(status.current_image.as_deref(), Some(OTHER_IMAGE));
    let tls = status.current_sidecar_tls.clone().expect("it was observed");
    assert_eq!((tls.scheme, tls.issuer_name.as_deref()), (Scheme::Https, Some("one")));
    assert_eq!(reason(&status, "SidecarTLSSecretReady"), "TLSSecretReady");
    assert_eq!(ground.pod_deletions()?, 1, "one pod cycle for both");
    ground.rests(A_WHILE).await
}

/// The proxy reloads by content; here the played one does.
async fn a_renewed_certificate_replaces_no_pod(ground: &Ground<'_>) -> Result<(), Error> {
    let before = certificate_in(ground, "node-sidecar-tls").await?;
    let pod = ground.pod("node").await?.uid();
    // cert-manager issues anew what is gone: the way in which people force a renewal.
    ground.api::<Secret>().delete("node-sidecar-tls", &DeleteParams::default()).await?;
    wait::until("a new certificate", SOON, || async {
        let now = certificate_in(ground, "node-sidecar-tls").await.map_err(|error| error.to_string())?;
        if now != before && !now.is_empty() { Ok(()) } else { Err("it is the old one".to_owned()) }
    })
    .await?;
    ground.sidecar("node").restart();
    let asked = ground.sidecar("node").restarts();
    ground.until("node", "it was made ready over the new certificate", is_ready).await?;
    ground.sidecar("node").wait_ready(SOON).await?;
    assert_eq!(ground.sidecar("node").restarts(), asked);
    assert_eq!(ground.pod("node").await?.uid(), pod, "the same pod");
    assert_eq!(ground.pod_deletions()?, 1);
    Ok(())
}

async fn an_issuer_swap_replaces_the_pod_once(ground: &Ground<'_>) -> Result<(), Error> {
    let before = certificate_in(ground, "node-sidecar-tls").await?;
    ground.edit("node", json!({ "spec": { "sidecar": { "tls": by_issuer("two") } } })).await?;
    let node = ground.until("node", "the other issuer", is_ready).await?;
    let tls = node.status.unwrap_or_default().current_sidecar_tls.expect("it was observed");
    assert_eq!(tls.issuer_name.as_deref(), Some("two"));
    assert_ne!(certificate_in(ground, "node-sidecar-tls").await?, before, "it was issued anew");
    assert_eq!(ground.pod_deletions()?, 2, "one for the swap");
    Ok(())
}

async fn an_issuer_that_cannot_issue_is_named_and_the_next_edit_is_taken_up(
    ground: &Ground<'_>,
) -> Result<(), Error> {
    ground.edit("node", json!({ "spec": { "sidecar": { "tls": by_issuer("bad") } } })).await?;
    let node = ground
        .until("node", "the bad issuer is named", |_, status| {
            let waiting = status.waiting_for.as_ref();
            let named = |waiting: &WaitingFor| {
                waiting.target == "Certificate/node-sidecar-tls"
                    && waiting
                        .message
                        .as_ref()
                        .is_some_and(|message| message.contains("waits for issuer bad; it says: "))
            };
            waiting.is_some_and(named) && reason(status, "SidecarTLSSecretReady") == "CertificateNotReady"
        })
        .await?;
    let status = node.status.unwrap_or_default();
    println!("a bad issuer: {}", message(&status, "SidecarTLSSecretReady"));
    assert_eq!(reason(&status, "SidecarReady"), "Ready", "the node was left running");
    assert_eq!(ground.pod_deletions()?, 2);
    ground.edit("node", json!({ "spec": { "sidecar": { "tls": by_issuer("one") } } })).await?;
    ground.until("node", "the good issuer", is_ready).await?;
    Ok(())
}

async fn tls_is_switched_off(ground: &Ground<'_>) -> Result<(), Error> {
    ground.edit("node", json!({ "spec": { "sidecar": { "tls": null } } })).await?;
    let node = ground.until("node", "no TLS", is_ready).await?;
    let tls = node.status.unwrap_or_default().current_sidecar_tls.expect("it was observed");
    assert_eq!((tls.scheme, tls.secret_name), (Scheme::Http, None));
    assert_eq!(ground.pod_deletions()?, 4, "one for on, one for each swap, one for off");
    let gone = ground.api::<Certificate>().get_opt("node-sidecar-tls").await?;
    assert!(gone.is_none(), "the certificate is removed: {gone:?}");
    ground.rests(A_WHILE).await
}
