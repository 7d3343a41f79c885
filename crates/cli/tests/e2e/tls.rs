//! TLS of a running node with certificates issued by cert-manager.

use std::process::Child;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use api::SeiNode;
use api::names::container;
use api::sei_node::{Scheme, SeiNodeStatus};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use testbed::cluster::kubectl;
use testbed::demo::platform::{FULL_NODE, NAMESPACE, manifest};
use testbed::demo::sei_nodes::{SeiNodes, TIMEOUT, condition, is_ready};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{self, since};

/// Certificate of the full node.
const CERTIFICATE: &str = "full-node-sidecar-tls";

/// Maximum number of seconds from pod start to the first response of its sidecar, generous for busy machines.
const MAX_DELAY_SECONDS: i64 = 20;

/// Message for a sidecar that is starved of CPU, which is unrelated to certificates.
const CPU_STARVATION: &str = "the sidecar did not respond within 2 s";

fn issuer(name: &str) -> Value {
    json!({ "sidecar": { "tls": { "issuerName": name, "issuerKind": "Issuer", "secretName": null } } })
}

async fn certificate(nodes: &SeiNodes<'_>) -> Result<Vec<u8>, Error> {
    let secret = nodes.api::<Secret>().get(CERTIFICATE).await?;
    Ok(secret.data.unwrap_or_default().get("tls.crt").map(|bytes| bytes.0.clone()).unwrap_or_default())
}

/// Edits the node, waits until it is in sync and returns the number of pod cycles.
async fn apply_edit(nodes: &SeiNodes<'_>, what: &str, edit: &Value, scheme: Scheme) -> Result<usize, Error> {
    let before = nodes.pod_deletions(FULL_NODE)?;
    let begin = Instant::now();
    nodes.edit(FULL_NODE, edit)?;
    // The transition time of a condition would be that of a later timeout on a busy machine.
    nodes.wait_until(FULL_NODE, what, is_sidecar_ready).await?;
    let answered = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let node = nodes.wait_until(FULL_NODE, what, is_ready).await?;
    let observed = node.status.and_then(|status| status.current_sidecar_tls).map(|tls| tls.scheme);
    assert_eq!(observed, Some(scheme), "{what}");
    let cycles = nodes.pod_deletions(FULL_NODE)? - before;
    let answered = i64::try_from(answered).unwrap_or(i64::MAX);
    let delay = answered - last_container_start(&nodes.pod(FULL_NODE).await?)?;
    println!("{what}: {cycles} pod cycles, {}; sidecar ready {delay} s after pod start", since(begin));
    assert!(delay <= MAX_DELAY_SECONDS, "{what}: sidecar requests failed for longer than the pod restart");
    Ok(cycles)
}

/// Returns true if the latest edit is applied, which needs the sidecar of the new pod. seid may still be starting.
fn is_sidecar_ready(node: &SeiNode, status: &SeiNodeStatus) -> bool {
    status.reconciled_generation == node.metadata.generation && condition(status, "SidecarReady").0 == "True"
}

/// Returns the Unix time at which the SidecarReady condition became true.
async fn sidecar_ready_since(nodes: &SeiNodes<'_>) -> Result<i64, Error> {
    let node = nodes.api::<SeiNode>().get(FULL_NODE).await?;
    let conditions = node.status.unwrap_or_default().conditions;
    let ready = conditions
        .into_iter()
        .find(|condition| condition.type_ == "SidecarReady" && condition.status == "True");
    let since = ready.map(|condition| condition.last_transition_time.0.as_second());
    since.ok_or_else(|| Error::Other("sidecar is not ready".into()))
}

/// Returns the Unix time at which the last container of a pod started.
fn last_container_start(pod: &Pod) -> Result<i64, Error> {
    let status = pod.status.clone().unwrap_or_default();
    let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
    let times = all.filter_map(|status| Some(status.state?.running?.started_at?.0.as_second()));
    times.max().ok_or_else(|| Error::Other("pod has no running container".into()))
}

/// Renews the certificate with a kubectl command, waits until the proxy serves it and checks that the pod is unchanged.
async fn renew(nodes: &SeiNodes<'_>, what: &str, command: &[&str]) -> TestResult {
    let (before, pod) = (certificate(nodes).await?, nodes.pod(FULL_NODE).await?.uid());
    let begin = Instant::now();
    kubectl::run(nodes.plane(), command, None)?;
    wait::until("a new certificate", TIMEOUT, || async {
        match certificate(nodes).await? {
            now if now != before && !now.is_empty() => Ok(()),
            _ => Err(Error::Other("certificate is unchanged".into())),
        }
    })
    .await?;
    wait::until("the proxy to serve the new certificate", TIMEOUT, || async {
        let is_served = nodes.serves_certificate(FULL_NODE, &certificate(nodes).await?).await?;
        if is_served { Ok(()) } else { Err(Error::Other("proxy still serves the old certificate".into())) }
    })
    .await?;
    nodes.wait_until(FULL_NODE, "node to be ready with the renewed certificate", is_ready).await?;
    assert_eq!(nodes.pod(FULL_NODE).await?.uid(), pod, "{what}: pod was replaced");
    println!("{what}: 0 pod cycles, {}", since(begin));
    Ok(())
}

/// Records every change of the SidecarReady condition with `kubectl get --watch`.
struct ConditionLog {
    watch: Child,
    file: NamedTempFile,
}

impl ConditionLog {
    fn start(nodes: &SeiNodes<'_>) -> Result<Self, Error> {
        const OUTPUT: &str = "jsonpath={.status.conditions[?(@.type==\"SidecarReady\")].status} {.status.conditions[?(@.type==\"SidecarReady\")].message}{\"\\n\"}";
        let io = |source| Error::Io { what: "kubectl watch".into(), source };
        let file = NamedTempFile::new().map_err(io)?;
        let mut kubectl = nodes.plane().kubectl()?;
        kubectl.args(["get", "seinode", FULL_NODE, "--namespace", NAMESPACE, "--watch", "--output", OUTPUT]);
        let watch = kubectl.stdout(file.reopen().map_err(io)?).spawn().map_err(io)?;
        Ok(Self { watch, file })
    }

    fn read(&self) -> Result<String, Error> {
        let io = |source| Error::Io { what: "reading the kubectl watch output".into(), source };
        std::fs::read_to_string(self.file.path()).map_err(io)
    }
}

impl Drop for ConditionLog {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.watch.kill();
        let _ = self.watch.wait();
    }
}

/// Regular renewal: no request of the operator fails, except while the kubelet restarts the proxy.
async fn regular_renewal(nodes: &SeiNodes<'_>, what: &str) -> TestResult {
    let log = ConditionLog::start(nodes)?;
    wait::until("kubectl to watch", TIMEOUT, || async {
        let content = log.read()?;
        if content.starts_with("True ") { Ok(()) } else { Err(Error::Other(content)) }
    })
    .await?;
    let restarts = kubelet_restarts(&nodes.pod(FULL_NODE).await?);
    // Same as `cmctl renew`.
    let issuing =
        json!({ "type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by hand" });
    let patch = json!([{ "op": "add", "path": "/status/conditions/-", "value": issuing }]).to_string();
    let patch_command =
        ["patch", "certificate", CERTIFICATE, "--namespace", NAMESPACE, "--subresource=status"];
    renew(nodes, what, &[&patch_command[..], &["--type=json", "--patch", &patch]].concat()).await?;
    let mut failed: Vec<String> =
        log.read()?.lines().filter(|line| !line.starts_with("True ")).map(str::to_owned).collect();
    let pod = nodes.pod(FULL_NODE).await?;
    println!("{what}: failed requests: {failed:?}");
    let all = failed.len();
    failed.retain(|line| !line.contains(CPU_STARVATION));
    // One timeout is CPU starvation; more indicate a hanging proxy.
    assert!(all - failed.len() <= 1, "{what}: repeated sidecar timeouts");
    let restarted = kubelet_restarts(&pod) > restarts;
    assert!(failed.is_empty() || restarted, "{what}: requests of the operator failed: {failed:?}");
    if restarted { check_ready_after_restart(nodes, what, &pod).await } else { Ok(()) }
}

/// Checks that requests failed only while the kubelet restarted the proxy.
async fn check_ready_after_restart(nodes: &SeiNodes<'_>, what: &str, pod: &Pod) -> TestResult {
    let delay = sidecar_ready_since(nodes).await? - last_container_start(pod)?;
    println!("{what}: the kubelet restarted the proxy; sidecar ready {delay} s after its start");
    assert!(delay <= MAX_DELAY_SECONDS, "{what}: requests failed for longer than the restart");
    Ok(())
}

/// Returns the restart count of the proxy if its last exit code is 0, as after a failed liveness probe on a starved machine.
/// Crashes do not count.
fn kubelet_restarts(pod: &Pod) -> i32 {
    let status = pod.status.clone().unwrap_or_default();
    let mut all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
    let proxy = all.find(|status| status.name == container::PROXY);
    proxy.map_or(0, |proxy| {
        let last = proxy.last_state.and_then(|state| state.terminated).map(|terminated| terminated.exit_code);
        if last == Some(0) { proxy.restart_count } else { 0 }
    })
}

/// Returns the Unix time in seconds.
fn unix_seconds() -> Result<i64, Error> {
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| Error::Other(error.to_string()))?;
    Ok(i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

/// Renewal by deleting the Secret. Until it is recreated, the operator has no CA to verify the sidecar with.
async fn renewal_by_deletion(nodes: &SeiNodes<'_>, what: &str) -> TestResult {
    let (begin, restarts) = (unix_seconds()?, kubelet_restarts(&nodes.pod(FULL_NODE).await?));
    renew(nodes, what, &["delete", "secret", CERTIFICATE, "--namespace", NAMESPACE]).await?;
    let pod = nodes.pod(FULL_NODE).await?;
    if kubelet_restarts(&pod) > restarts {
        return check_ready_after_restart(nodes, what, &pod).await;
    }
    let delay = sidecar_ready_since(nodes).await? - begin;
    assert!(delay <= MAX_DELAY_SECONDS, "{what}: sidecar ready only {delay} s after the deletion");
    Ok(())
}

/// Enable, renew, switch the issuer, disable: 1, 0, 1 and 1 pod cycles. One issuer is self-signed, the other has a CA.
pub async fn tls_is_enabled_renewed_switched_and_disabled(cx: Context) -> TestResult {
    let (nodes, _turn) = fixture::with_full_node(&cx).await?;
    kubectl::apply(nodes.plane(), &manifest("tls/issuer.yaml")?)?;
    assert_eq!(apply_edit(&nodes, "TLS on", &issuer("self-signed"), Scheme::Https).await?, 1);
    regular_renewal(&nodes, "renewed self-signed certificate").await?;
    renewal_by_deletion(&nodes, "certificate with deleted Secret").await?;

    let before = certificate(&nodes).await?;
    assert_eq!(apply_edit(&nodes, "another issuer", &issuer("sidecars"), Scheme::Https).await?, 1);
    assert_ne!(certificate(&nodes).await?, before);
    regular_renewal(&nodes, "renewed CA-issued certificate").await?;

    let off = json!({ "sidecar": { "tls": null } });
    assert_eq!(apply_edit(&nodes, "TLS off", &off, Scheme::Http).await?, 1);
    nodes.wait_for_new_blocks(FULL_NODE).await?;
    Ok(())
}
