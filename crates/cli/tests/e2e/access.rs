//! Access to the sidecar.

use std::time::Instant;

use api::names::{container, port};
use api::sidecar_wire::path;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use testbed::cluster::kubectl;
use testbed::cluster::node::kill_container;
use testbed::demo::platform::{NAMESPACE, PUBLISHER, VALIDATOR};
use testbed::demo::sei_nodes::{TIMEOUT, is_ready};
use testbed::demo::sidecar_client::SidecarClient;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::fixture::{self, since};

/// From another pod, the sidecar port refuses connections because it listens on loopback; the proxy port responds.
pub async fn sidecar_is_reachable_through_proxy_only(cx: Context) -> TestResult {
    let nodes = fixture::with_publisher(&cx).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "client", "namespace": NAMESPACE },
        "spec": {
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "client", "image": "outrigger.dev/outrigger:dev",
                "command": ["testbed-pod", "serve", "--port=8080"],
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    });
    kubectl::apply(nodes.plane(), &pod.to_string())?;
    let wait = ["wait", "--for=condition=Ready", "--timeout=120s", "--namespace", NAMESPACE, "pod/client"];
    kubectl::run(nodes.plane(), &wait, None)?;
    let get = |port: i32, path: &str| {
        let url = format!("http://{PUBLISHER}-0.{PUBLISHER}.{NAMESPACE}.svc:{port}{path}");
        let exec = ["exec", "--namespace", NAMESPACE, "client", "--", "testbed-pod", "get", &url];
        kubectl::run(nodes.plane(), &exec, None)
    };
    get(port::PROXY, path::HEALTHZ)?;
    let refused = get(port::PROXY, path::STATUS).expect_err("request without a token").to_string();
    assert!(refused.contains("401"), "{refused}");
    let refused = get(port::SIDECAR, path::HEALTHZ).expect_err("request to the sidecar port").to_string();
    assert!(refused.contains("refused"), "{refused}");
    Ok(())
}

/// Access to the tasks of one node does not include other nodes.
pub async fn task_access_is_limited_to_one_node(cx: Context) -> TestResult {
    let nodes = fixture::with_publisher(&cx).await?;
    let uploader = SidecarClient::service_account(&nodes, "uploader", PUBLISHER)?;
    let task = json!({ "type": "config-validate" });
    let publisher = nodes.address(PUBLISHER).await?;
    let (code, body) = uploader.request(publisher, path::TASKS, Some(&task)).await?;
    assert_eq!(code, 201, "{body}");
    let (code, body) = SidecarClient::ANONYMOUS.request(publisher, path::TASKS, Some(&task)).await?;
    assert_eq!(code, 401, "{body}");
    let validator = nodes.address(VALIDATOR).await?;
    let (code, body) = uploader.request(validator, path::TASKS, Some(&task)).await?;
    assert_eq!(code, 401, "a token for one node is accepted by another: {body}");
    let uploader = SidecarClient::service_account(&nodes, "uploader", VALIDATOR)?;
    let (code, body) = uploader.request(validator, path::TASKS, Some(&task)).await?;
    assert_eq!(code, 403, "{body}");
    let forged = uploader.request(validator, path::STATUS, None).await?;
    assert_eq!(forged.0, 403, "{}", forged.1);
    Ok(())
}

/// Kills the sidecar repeatedly: after the second time, the kubelet backs off before it restarts the container.
pub async fn dead_sidecar_returns_502_and_recovers(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let before = nodes.pod(VALIDATOR).await?;
    let begin = Instant::now();
    let address = nodes.address(VALIDATOR).await?;
    wait::until("502", TIMEOUT, || async {
        let pod = nodes.pod(VALIDATOR).await?;
        let sidecar =
            container_id(&pod, container::SIDECAR).ok_or_else(|| Error::Other("no sidecar".into()))?;
        // It may be dead already.
        let _ = kill_container(sidecar);
        match SidecarClient::ANONYMOUS.request(address, path::HEALTHZ, None).await? {
            (502, _) => Ok(()),
            (code, body) => Err(Error::Other(format!("{code} {body}"))),
        }
    })
    .await?;
    nodes.wait_until(VALIDATOR, "validator to be ready again", is_ready).await?;
    println!("killed sidecar: ready again after {}", since(begin));
    let after = nodes.pod(VALIDATOR).await?;
    assert_eq!(seid_start(&before), seid_start(&after), "seid kept running");
    nodes.wait_for_new_blocks(VALIDATOR).await?;
    Ok(())
}

fn container_id<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let statuses = pod.status.as_ref()?.init_container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == name)?.container_id.as_deref()
}

fn seid_start(pod: &Pod) -> Option<String> {
    let status = pod
        .status
        .as_ref()?
        .container_statuses
        .as_ref()?
        .iter()
        .find(|status| status.name == container::SEID)?;
    Some(format!("{:?} {:?}", pod.metadata.uid, status.state.as_ref()?.running.as_ref()?.started_at))
}
