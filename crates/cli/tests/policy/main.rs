//! NetworkPolicies of nodes and of the operator, enforced by a real engine. A suite of its own, because the engine also blocks the
//! tests of other suites, which are clients from outside of the cluster.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes libtest tests only")]

use std::time::Duration;

use api::names::port;
use api::sidecar_wire::path;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::json;
use testbed::cluster::kubectl;
use testbed::cluster::node::policy_engine;
use testbed::demo::platform::{OPERATOR, Platform, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, TIMEOUT, is_ready};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

testbed::suite![network_policy_closes_ports_to_foreign_pods];

/// Whether a port is reachable from a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Answered,
    /// Dropped or rejected by the engine.
    Blocked,
}

/// Requests a URL from the foreign pod.
fn request(platform: &Platform, url: &str) -> Result<Reached, Error> {
    let exec = ["exec", "--namespace", "foreign", "client", "--", "testbed-pod", "get", url, "--within=3"];
    match kubectl::run(platform.plane(), &exec, None).map_err(|error| error.to_string()) {
        Ok(_) => Ok(Reached::Answered),
        Err(error) if error.contains("returned") => Ok(Reached::Answered),
        Err(error) if error.contains("timed out") || error.contains("refused") => Ok(Reached::Blocked),
        Err(error) => Err(Error::Other(error)),
    }
}

async fn until(platform: &Platform, url: &str, expected: Reached) -> Result<(), Error> {
    wait::until(format!("{url}: {expected:?}"), TIMEOUT, || async {
        match request(platform, url)? {
            reached if reached == expected => Ok(()),
            reached => Err(Error::Other(format!("{reached:?}"))),
        }
    })
    .await?;
    println!("{expected:?}: {url}");
    Ok(())
}

/// The proxy port of a node is open to the operator only, the ports of seid to everyone.
async fn network_policy_closes_ports_to_foreign_pods(cx: Context) -> TestResult {
    let Some(engine) = policy_engine::from_environment() else { return Ok(()) };
    let platform = cx.platform().await?;
    let nodes = SeiNodes::new(platform).await?;
    platform.apply_file("validator/validator.yaml")?;
    nodes.wait_until(VALIDATOR, "validator to be ready", is_ready).await?;
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "foreign" } });
    kubectl::apply(platform.plane(), &namespace.to_string())?;
    let client = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "client", "namespace": "foreign" },
        "spec": { "automountServiceAccountToken": false, "containers": [{
            "name": "client", "image": "outrigger.dev/outrigger:dev", "command": ["testbed-pod", "serve", "--port=8080"],
        }] },
    });
    kubectl::apply(platform.plane(), &client.to_string())?;
    let ready = ["wait", "--for=condition=Ready", "--timeout=120s", "--namespace", "foreign", "pod/client"];
    kubectl::run(platform.plane(), &ready, None)?;
    let host = nodes.address(VALIDATOR).await?;
    let proxy = format!("http://{host}:{}{}", port::PROXY, path::HEALTHZ);
    let rpc = format!("http://{host}:{}/status", port::RPC);
    // The control attempts: without an engine, policies are not enforced.
    for url in [&proxy, &rpc] {
        until(platform, url, Reached::Answered).await?;
    }
    let mut engines = Vec::new();
    for node in platform.cluster().nodes() {
        engines.push(node.start_policy_engine(platform.plane(), &engine)?);
    }
    until(platform, &proxy, Reached::Blocked).await?;
    until(platform, &rpc, Reached::Answered).await?;
    let pods: Api<Pod> = Api::namespaced(platform.plane().client().await?, OPERATOR.0);
    for pod in pods.list(&ListParams::default()).await? {
        let Some(host) = pod.status.and_then(|status| status.pod_ip) else { continue };
        until(platform, &format!("http://{host}:8080/metrics"), Reached::Blocked).await?;
    }
    // The operator reaches the sidecar: it applies an edit.
    nodes.edit(VALIDATOR, &json!({ "podLabels": { "example.com/edited": "true" } }))?;
    nodes.wait_until(VALIDATOR, "edit to be applied behind the policies", is_ready).await?;
    until(
        platform,
        &format!("http://{}:{}{}", nodes.address(VALIDATOR).await?, port::PROXY, path::HEALTHZ),
        Reached::Blocked,
    )
    .await?;
    for engine in &engines {
        engine.check_alive()?;
    }
    wait::throughout("engines to keep running", Duration::from_secs(2), || async {
        engines.iter().try_for_each(testbed::process::Process::check_alive).map_err(|error| error.to_string())
    })
    .await?;
    Ok(())
}
