//! TLS of a running node, with real certificates.

use std::process::Child;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use api::SeiNode;
use api::names::container;
use api::sei_node::Scheme;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use testbed::cluster::kubectl;
use testbed::demo::platform::{FULL_NODE, NAMESPACE, manifest};
use testbed::demo::sei_nodes::{SOON, SeiNodes, is_ready};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::ground::{self, since};

/// The certificate of the full node.
const CERTIFICATE: &str = "full-node-sidecar-tls";

/// The most seconds from the start of a pod to an answer of its sidecar, on a busy machine.
const PROMPTLY: i64 = 20;

/// What is said of a sidecar that gets no processor for a moment: no certificate is at fault.
const STARVING: &str = "no answer within 2 s";

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
    let began = Instant::now();
    kubectl::run(nodes.plane(), begin, None)?;
    wait::until("a new certificate", SOON, || async {
        match certificate(nodes).await? {
            now if now != before && !now.is_empty() => Ok(()),
            _ => Err(Error::Refused("it is the old one".into())),
        }
    })
    .await?;
    wait::until("the proxy to serve it", SOON, || async {
        let is_served = nodes.serves(FULL_NODE, &certificate(nodes).await?).await?;
        if is_served { Ok(()) } else { Err(Error::Refused("it still serves the old one".into())) }
    })
    .await?;
    nodes.until(FULL_NODE, "the renewed certificate", is_ready).await?;
    assert_eq!(nodes.pod(FULL_NODE).await?.uid(), pod, "{what}: the same pod");
    println!("{what}: 0 pod cycles, {}", since(began));
    Ok(())
}

/// What is said of the sidecar, change by change, until it is asked for.
struct Diary {
    watching: Child,
    file: NamedTempFile,
}

impl Diary {
    fn begin(nodes: &SeiNodes<'_>) -> Result<Self, Error> {
        const SAID: &str = "jsonpath={.status.conditions[?(@.type==\"SidecarReady\")].status} {.status.conditions[?(@.type==\"SidecarReady\")].message}{\"\\n\"}";
        let io = |source| Error::Io { what: "watching with kubectl".into(), source };
        let file = NamedTempFile::new().map_err(io)?;
        let mut kubectl = nodes.plane().kubectl()?;
        kubectl.args(["get", "seinode", FULL_NODE, "--namespace", NAMESPACE, "--watch", "--output", SAID]);
        let watching = kubectl.stdout(file.reopen().map_err(io)?).spawn().map_err(io)?;
        Ok(Self { watching, file })
    }

    fn said(&self) -> Result<String, Error> {
        let io = |source| Error::Io { what: "reading what kubectl has seen".into(), source };
        std::fs::read_to_string(self.file.path()).map_err(io)
    }
}

impl Drop for Diary {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.watching.kill();
        let _ = self.watching.wait();
    }
}

/// A renewal as it is ordinary: no call of the operator fails, but while kubelet restarts the proxy.
async fn ordinary_renewal(nodes: &SeiNodes<'_>, what: &str) -> TestResult {
    let diary = Diary::begin(nodes)?;
    wait::until("kubectl to watch", SOON, || async {
        let said = diary.said()?;
        if said.starts_with("True ") { Ok(()) } else { Err(Error::Refused(said)) }
    })
    .await?;
    let restarts = ended_by_kubelet(&nodes.pod(FULL_NODE).await?);
    // What `cmctl renew` does.
    let issuing =
        json!({ "type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by hand" });
    let patch = json!([{ "op": "add", "path": "/status/conditions/-", "value": issuing }]).to_string();
    let renew = ["patch", "certificate", CERTIFICATE, "--namespace", NAMESPACE, "--subresource=status"];
    renewal(nodes, what, &[&renew[..], &["--type=json", "--patch", &patch]].concat()).await?;
    let mut failed: Vec<String> =
        diary.said()?.lines().filter(|line| !line.starts_with("True ")).map(str::to_owned).collect();
    let pod = nodes.pod(FULL_NODE).await?;
    println!("{what}: failed calls: {failed:?}");
    let all = failed.len();
    failed.retain(|line| !line.contains(STARVING));
    // One is a machine that was short of processors; more is a proxy that hangs.
    assert!(all - failed.len() <= 1, "{what}: the sidecar did not answer again and again");
    let restarted = ended_by_kubelet(&pod) > restarts;
    assert!(failed.is_empty() || restarted, "{what}: calls of the operator failed: {failed:?}");
    if restarted { answered_after_restart(nodes, what, &pod).await } else { Ok(()) }
}

/// Sees that calls failed for no longer than kubelet took to start the proxy anew.
async fn answered_after_restart(nodes: &SeiNodes<'_>, what: &str, pod: &Pod) -> TestResult {
    let late = answered(nodes).await? - started(pod)?;
    println!("{what}: kubelet ended the proxy meanwhile; the operator was answered {late} s after its start");
    assert!(late <= PROMPTLY, "{what}: calls failed for longer than the restart");
    Ok(())
}

/// How often the proxy of a pod was started again because kubelet had ended it, as it does on a starving machine. One that ended
/// otherwise than well is not among them.
fn ended_by_kubelet(pod: &Pod) -> i32 {
    let status = pod.status.clone().unwrap_or_default();
    let mut all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
    let proxy = all.find(|one| one.name == container::PROXY);
    proxy.map_or(0, |proxy| {
        let last = proxy.last_state.and_then(|state| state.terminated).map(|ended| ended.exit_code);
        if last == Some(0) { proxy.restart_count } else { 0 }
    })
}

/// Seconds since 1970.
fn seconds() -> Result<i64, Error> {
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| Error::Refused(error.to_string()))?;
    Ok(i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

/// A renewal as impatient people make one: while there is no Secret, nobody can be known by it.
async fn renewal_by_deletion(nodes: &SeiNodes<'_>, what: &str) -> TestResult {
    let (begin, restarts) = (seconds()?, ended_by_kubelet(&nodes.pod(FULL_NODE).await?));
    renewal(nodes, what, &["delete", "secret", CERTIFICATE, "--namespace", NAMESPACE]).await?;
    let pod = nodes.pod(FULL_NODE).await?;
    if ended_by_kubelet(&pod) > restarts {
        return answered_after_restart(nodes, what, &pod).await;
    }
    let late = answered(nodes).await? - begin;
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
