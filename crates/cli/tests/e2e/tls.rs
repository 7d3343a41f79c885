//! TLS of a running node, with real certificates.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use api::SeiNode;
use api::names::{container, object};
use api::sei_node::Scheme;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use testbed::platform::{FULL_NODE, NAMESPACE, manifest};
use testbed::sei_nodes::{SOON, SeiNodes, is_ready};
use testbed::{Context, Error, TestResult, kubectl, wait};

use crate::ground::{self, since};

/// The certificate of the full node.
const CERTIFICATE: &str = "full-node-sidecar-tls";

/// The most seconds from the start of a pod to an answer of its sidecar, on a busy machine.
const PROMPTLY: i64 = 20;

fn issuer(name: &str) -> Value {
    json!({ "sidecar": { "tls": { "issuerName": name, "issuerKind": "Issuer", "secretName": null } } })
}

async fn certificate(nodes: &SeiNodes<'_>) -> Result<Vec<u8>, Error> {
    let secret = nodes.api::<Secret>().get(CERTIFICATE).await?;
    Ok(secret.data.unwrap_or_default().get("tls.crt").map(|bytes| bytes.0.clone()).unwrap_or_default())
}

/// Edits, waits until the node is as wanted, and says how many pods it took.
async fn cycles(nodes: &SeiNodes<'_>, what: &str, edit: &Value, scheme: Scheme) -> Result<usize, Error> {
    let before = nodes.pod_deletions(FULL_NODE)?;
    let begin = Instant::now();
    nodes.edit(FULL_NODE, edit)?;
    let node = nodes.until(FULL_NODE, what, is_ready).await?;
    let seen = node.status.and_then(|status| status.current_sidecar_tls).map(|tls| tls.scheme);
    assert_eq!(seen, Some(scheme), "{what}");
    let cycles = nodes.pod_deletions(FULL_NODE)? - before;
    let answered = answered(nodes).await?;
    let late = answered - started(&nodes.pod(FULL_NODE).await?)?;
    println!(
        "{what}: {cycles} pod cycles, {}; the operator was answered {late} s after the pod had started",
        since(begin)
    );
    assert!(late <= PROMPTLY, "{what}: the operator's calls failed for longer than the pod's restart");
    Ok(cycles)
}

/// When the operator's calls of the sidecar began to be answered, in seconds.
async fn answered(nodes: &SeiNodes<'_>) -> Result<i64, Error> {
    let node = nodes.api::<SeiNode>().get(FULL_NODE).await?;
    let conditions = node.status.unwrap_or_default().conditions;
    let ready = conditions.into_iter().find(|one| one.type_ == "SidecarReady" && one.status == "True");
    let since = ready.map(|one| one.last_transition_time.0.as_second());
    since.ok_or_else(|| Error::Refused("its sidecar is not ready".into()))
}

/// When the last container of a pod started.
fn started(pod: &Pod) -> Result<i64, Error> {
    let status = pod.status.clone().unwrap_or_default();
    let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
    let times = all.filter_map(|one| Some(one.state?.running?.started_at?.0.as_second()));
    times.max().ok_or_else(|| Error::Refused("nothing of the pod runs".into()))
}

/// Renews the certificate, waits until the new one is served, and sees that it is by the same pod.
async fn renewal(nodes: &SeiNodes<'_>, what: &str, begin: &[&str]) -> TestResult {
    let (before, pod) = (certificate(nodes).await?, nodes.pod(FULL_NODE).await?.uid());
    let pod_name = object::pod(FULL_NODE);
    let logs = ["logs", &pod_name, "--namespace", NAMESPACE, "--container", container::PROXY];
    let changes = || {
        let said = kubectl::run(nodes.plane(), &logs, None)?;
        Ok::<_, Error>(said.matches("certificate has changed and is in use").count())
    };
    let (began, changed) = (Instant::now(), changes()?);
    kubectl::run(nodes.plane(), begin, None)?;
    wait::until("a new certificate", SOON, || async {
        match certificate(nodes).await? {
            now if now != before && !now.is_empty() => Ok(()),
            _ => Err(Error::Refused("it is the old one".into())),
        }
    })
    .await?;
    wait::until("the proxy to serve it", SOON, || async {
        if changes()? > changed { Ok(()) } else { Err(Error::Refused("it still serves the old one".into())) }
    })
    .await?;
    nodes.until(FULL_NODE, "the renewed certificate", is_ready).await?;
    assert_eq!(nodes.pod(FULL_NODE).await?.uid(), pod, "{what}: the same pod");
    println!("{what}: 0 pod cycles, {}", since(began));
    Ok(())
}

/// A renewal as it is ordinary: not one call of the operator fails.
async fn ordinary_renewal(nodes: &SeiNodes<'_>, what: &str) -> TestResult {
    let served = answered(nodes).await?;
    // What `cmctl renew` does.
    let issuing =
        json!({ "type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by hand" });
    let patch = json!([{ "op": "add", "path": "/status/conditions/-", "value": issuing }]).to_string();
    let renew = ["patch", "certificate", CERTIFICATE, "--namespace", NAMESPACE, "--subresource=status"];
    renewal(nodes, what, &[&renew[..], &["--type=json", "--patch", &patch]].concat()).await?;
    assert_eq!(answered(nodes).await?, served, "{what}: no call of the operator failed");
    Ok(())
}

/// A renewal as impatient people make one: while there is no Secret, nobody can be known by it.
async fn renewal_by_deletion(nodes: &SeiNodes<'_>, what: &str) -> TestResult {
    let begin = SystemTime::now();
    renewal(nodes, what, &["delete", "secret", CERTIFICATE, "--namespace", NAMESPACE]).await?;
    let begin = begin.duration_since(UNIX_EPOCH).map_err(|error| Error::Refused(error.to_string()))?;
    let late = answered(nodes).await? - i64::try_from(begin.as_secs()).unwrap_or(i64::MAX);
    assert!(late <= PROMPTLY, "{what}: the operator was answered {late} s after the deletion");
    Ok(())
}

/// On, renewed, by another issuer, off: 1, 0, 1 and 1 pod cycles. One issuer has an authority, the other one has none.
pub async fn tls_is_switched_on_renewed_swapped_and_switched_off(cx: Context) -> TestResult {
    let (nodes, _turn) = ground::with_full_node(&cx).await?;
    kubectl::apply(nodes.plane(), &manifest("tls/issuer.yaml")?)?;
    assert_eq!(cycles(&nodes, "TLS on", &issuer("itself"), Scheme::Https).await?, 1);
    ordinary_renewal(&nodes, "a renewed certificate, signed by itself").await?;
    renewal_by_deletion(&nodes, "a certificate whose Secret was deleted").await?;

    let before = certificate(&nodes).await?;
    assert_eq!(cycles(&nodes, "another issuer", &issuer("sidecars"), Scheme::Https).await?, 1);
    assert_ne!(certificate(&nodes).await?, before);
    ordinary_renewal(&nodes, "a renewed certificate of an authority").await?;

    let off = json!({ "sidecar": { "tls": null } });
    assert_eq!(cycles(&nodes, "TLS off", &off, Scheme::Http).await?, 1);
    nodes.grows(FULL_NODE).await?;
    Ok(())
}
