//! Who reaches a sidecar, and who does not.

use std::time::Instant;

use api::names::{container, port};
use api::sidecar_wire::path;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use testbed::cluster::kubectl;
use testbed::demo::caller::Caller;
use testbed::demo::platform::{NAMESPACE, PUBLISHER, VALIDATOR};
use testbed::demo::sei_nodes::{SOON, is_ready};
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::ground::{self, since};

/// Kills the sidecar from beside it. The image has bash and little else.
const KILL: &str = r#"
for p in /proc/[0-9]*; do
  mapfile -d '' -t line <"$p/cmdline"
  if [ "${line[*]}" = 'seictl serve' ]; then kill -KILL "${p#/proc/}"; fi
done 2>/dev/null"#;

/// Loopback of the sidecar is seen from another pod: its own port refuses, that of the proxy answers.
pub async fn a_sidecar_is_reached_through_its_proxy_only(cx: Context) -> TestResult {
    let nodes = ground::with_publisher(&cx).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "stranger", "namespace": NAMESPACE },
        "spec": { "containers": [{
            "name": "stranger", "image": "outrigger.dev/outrigger:dev",
            "command": ["testbed-pod", "serve", "--port=8080"],
        }] },
    });
    kubectl::apply(nodes.plane(), &pod.to_string())?;
    let wait = ["wait", "--for=condition=Ready", "--timeout=120s", "--namespace", NAMESPACE, "pod/stranger"];
    kubectl::run(nodes.plane(), &wait, None)?;
    let get = |port: i32, path: &str| {
        let url = format!("http://{PUBLISHER}-0.{PUBLISHER}.{NAMESPACE}.svc:{port}{path}");
        let exec = ["exec", "--namespace", NAMESPACE, "stranger", "--", "testbed-pod", "get", &url];
        kubectl::run(nodes.plane(), &exec, None)
    };
    get(port::PROXY, path::HEALTHZ)?;
    let refused = get(port::PROXY, path::STATUS).expect_err("without a token").to_string();
    assert!(refused.contains("401"), "{refused}");
    let refused = get(port::SIDECAR, path::HEALTHZ).expect_err("it listens to others").to_string();
    assert!(refused.contains("refused"), "{refused}");
    Ok(())
}

/// The right to one node's tasks is the right to that node's tasks.
pub async fn an_account_drives_the_node_that_it_may_and_no_other(cx: Context) -> TestResult {
    let nodes = ground::with_publisher(&cx).await?;
    let uploader = Caller::account(&nodes, "uploader")?;
    let task = json!({ "type": "config-validate" });
    let publisher = nodes.address(PUBLISHER).await?;
    let (code, body) = uploader.ask(publisher, path::TASKS, Some(&task)).await?;
    assert_eq!(code, 201, "{body}");
    let (code, body) = Caller::NOBODY.ask(publisher, path::TASKS, Some(&task)).await?;
    assert_eq!(code, 401, "{body}");
    let validator = nodes.address(VALIDATOR).await?;
    let (code, body) = uploader.ask(validator, path::TASKS, Some(&task)).await?;
    assert_eq!(code, 403, "{body}");
    let forged = uploader.ask(validator, path::STATUS, None).await?;
    assert_eq!(forged.0, 403, "{}", forged.1);
    Ok(())
}

/// Two deaths: after the second, the kubelet waits before it starts the sidecar again.
pub async fn a_dead_sidecar_is_502_and_is_taken_up_again(cx: Context) -> TestResult {
    let nodes = ground::with_validator(&cx).await?;
    let before = nodes.pod(VALIDATOR).await?;
    let pod = format!("{VALIDATOR}-0");
    let exec = ["exec", "--namespace", NAMESPACE, &pod, "-c", container::SEID, "--", "bash", "-c", KILL];
    let begin = Instant::now();
    let address = nodes.address(VALIDATOR).await?;
    wait::until("502", SOON, || async {
        kubectl::run(nodes.plane(), &exec, None)?;
        match Caller::NOBODY.ask(address, path::HEALTHZ, None).await? {
            (502, _) => Ok(()),
            (code, body) => Err(Error::Refused(format!("{code} {body}"))),
        }
    })
    .await?;
    nodes.until(VALIDATOR, "it is ready again", is_ready).await?;
    println!("a dead sidecar: ready again {} after its death", since(begin));
    let after = nodes.pod(VALIDATOR).await?;
    assert_eq!(seid_started(&before), seid_started(&after), "seid went on");
    nodes.grows(VALIDATOR).await?;
    Ok(())
}

fn seid_started(pod: &Pod) -> Option<String> {
    let status =
        pod.status.as_ref()?.container_statuses.as_ref()?.iter().find(|one| one.name == container::SEID)?;
    Some(format!("{:?} {:?}", pod.metadata.uid, status.state.as_ref()?.running.as_ref()?.started_at))
}
