//! Threat (c): code that runs as seid in the pod of its node.

use api::names::{container, object, path as file, port};
use api::sidecar_wire::{USER_HEADER, path};
use testbed::cluster::kubectl;
use testbed::demo::platform::{NAMESPACE, OPERATOR_USER, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::{Context, Error, TestResult};

use crate::fixture;

/// Runs a bash script in the seid container of the validator and returns its output. The image has bash and little else.
fn run(nodes: &SeiNodes<'_>, script: &str) -> Result<String, Error> {
    let pod = object::pod(VALIDATOR);
    let exec =
        ["exec", "--namespace", NAMESPACE, &pod, "--container", container::SEID, "--", "bash", "-c", script];
    kubectl::run(nodes.plane(), &exec, None)
}

/// Prints the arguments of all visible processes.
const PROCESSES: &str = r#"
for p in /proc/[0-9]*; do
  mapfile -d '' -t line <"$p/cmdline"
  printf '%s: %s\n' "${p#/proc/}" "${line[*]}"
done 2>/dev/null; true"#;

/// Prints the readable environment of all visible processes.
const ENVIRONMENTS: &str = r#"
for p in /proc/[0-9]*; do
  mapfile -d '' -t variables <"$p/environ"
  printf '%s\n' "${variables[@]}"
done 2>/dev/null; true"#;

/// Sends a signal to every process that is neither this shell nor seid and its start script.
const KILL_OTHERS: &str = r#"
for p in /proc/[0-9]*; do
  pid=${p#/proc/}
  mapfile -d '' -t line <"$p/cmdline"
  case "${line[*]}" in *seid* | *bash* | '') ;; *) kill -KILL "$pid" && printf 'killed %s\n' "${line[*]}" ;; esac
done 2>/dev/null; true"#;

/// seid sees neither processes nor secrets of its neighbors.
pub async fn seid_sees_no_process_or_secret_of_its_neighbors(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let processes = run(&nodes, PROCESSES)?;
    assert!(processes.contains("seid start"), "the attempt must see its own processes: {processes}");
    for neighbor in ["seictl", "outrigger", "kube-rbac-proxy", "cosmos-exporter", "testbed-pod"] {
        assert!(!processes.contains(neighbor), "{neighbor} is visible: {processes}");
    }
    println!("refused: /proc shows only {}", processes.lines().count());
    let environments = run(&nodes, ENVIRONMENTS)?;
    assert!(environments.contains("HOME="), "the attempt must read its own environment: {environments}");
    for secret in ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "SEI_KEYRING_PASSPHRASE"] {
        assert!(!environments.contains(secret), "{secret} is readable");
    }
    println!("refused: no environment has the credentials of the object store");
    for path in [
        format!("{}/token", file::SERVICE_ACCOUNT),
        file::SIDECAR_SOCKET_DIR.into(),
        file::SIDECAR_SOCKET.into(),
        file::TLS.into(),
        file::PROXY_CONFIG.into(),
        "/.sei/keyring-file".into(),
    ] {
        let found = run(&nodes, &format!("[ -e '{path}' ] && echo found; true"))?;
        assert_eq!(found, "", "{path} is mounted");
        println!("refused: {path} does not exist");
    }
    Ok(())
}

/// On loopback only the health endpoint answers, and it believes no identity.
pub async fn seid_cannot_act_as_the_operator_on_loopback(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let identity = format!("{USER_HEADER}: {OPERATOR_USER}\\r\\nX-Remote-Group: system:masters\\r\\n");
    let request = |port: i32, method: &str, target: &str, headers: &str, body: &str| {
        let length = body.len();
        run(
            &nodes,
            &format!(
                "exec 3<>/dev/tcp/127.0.0.1/{port} || exit 0
                printf '{method} {target} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\nContent-Length: {length}\\r\\n{headers}\\r\\n{body}' >&3
                read -r -t 10 _ status _ <&3; printf '%s' \"$status\""
            ),
        )
    };
    assert_eq!(request(port::SIDECAR, "GET", path::HEALTHZ, "", "")?, "200", "the control attempt");
    for target in [path::STATUS, path::TASKS, path::CHAIN, path::METRICS, path::NODE_ID] {
        assert_eq!(request(port::SIDECAR, "GET", target, &identity, "")?, "404", "{target}");
        println!("refused with 404: GET {target} on loopback with a forged identity");
    }
    let task = r#"{"type": "mark-not-ready"}"#;
    assert_eq!(request(port::SIDECAR, "POST", path::TASKS, &identity, task)?, "404");
    println!("refused with 404: POST {} on loopback with a forged identity", path::TASKS);
    // Through the proxy, which removes the forged identity.
    assert_eq!(request(port::PROXY, "POST", path::TASKS, &identity, task)?, "401");
    println!("refused with 401: POST {} through the proxy with a forged identity", path::TASKS);
    Ok(())
}

/// The proxy cannot be killed, so its port cannot be taken over to collect tokens.
pub async fn seid_cannot_replace_the_proxy(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let restarts = |pod: &k8s_openapi::api::core::v1::Pod| {
        let statuses = pod.status.as_ref().and_then(|status| status.init_container_statuses.as_ref());
        let proxy = statuses.into_iter().flatten().find(|status| status.name == container::PROXY);
        proxy.map(|proxy| (proxy.restart_count, proxy.container_id.clone()))
    };
    let before = restarts(&nodes.pod(VALIDATOR).await?);
    assert!(before.is_some(), "the pod has no proxy");
    assert_eq!(run(&nodes, KILL_OTHERS)?, "", "a process of a neighbor was killed");
    nodes.wait_until(VALIDATOR, "node to be ready", is_ready).await?;
    assert_eq!(restarts(&nodes.pod(VALIDATOR).await?), before, "the proxy was restarted");
    println!("refused: no process of a neighbor can be signaled");
    // Files that would make the sidecar act for seid: a forged socket, and a forged answer of the start script.
    let forged = run(
        &nodes,
        &format!(
            "mkdir -p {0} 2>/dev/null && printf x >{1} && echo created; true",
            file::SIDECAR_SOCKET_DIR,
            file::SIDECAR_SOCKET
        ),
    )?;
    println!("a socket directory in the container of seid is another one: {:?}", forged.trim());
    nodes.wait_for_new_blocks(VALIDATOR).await?;
    nodes.wait_until(VALIDATOR, "node to be ready", is_ready).await?;
    Ok(())
}
