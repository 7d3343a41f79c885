//! Threat (a): a client on the network without a token.

use api::names::port;
use api::sidecar_wire::{USER_HEADER, path};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use operator::install::NAMESPACE as OPERATOR_NAMESPACE;
use serde_json::json;
use testbed::cluster::kubectl;
use testbed::demo::platform::{NAMESPACE, OPERATOR_USER, VALIDATOR};
use testbed::harness::raw_http::RawConnection;
use testbed::{Context, TestResult};

use super::Attempt;
use crate::fixture;

/// Targets that reach a protected path if proxy and sidecar read them differently.
const AMBIGUOUS: [&str; 8] = [
    "/v0/healthz/../tasks",
    "/v0/healthz/..%2ftasks",
    "/v0/healthz%2f..%2ftasks",
    "/v0//tasks",
    "/v0/./tasks",
    "/v0/tasks;/v0/healthz",
    "/v0/%74asks",
    "/v0/healthz?/../tasks",
];

/// Every path but those for kubelet and scrapers needs a token, however it is written and whatever identity is claimed.
pub async fn network_client_without_token_is_refused(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let host = nodes.address(VALIDATOR).await?;
    let task = json!({ "type": "mark-not-ready" });
    for target in [path::STATUS, path::TASKS, path::CHAIN, path::NODE_ID, "/", "/v0"] {
        Attempt::get(target).expect(host, &[401]).await?;
    }
    Attempt::post(path::TASKS, &task).expect(host, &[401]).await?;
    Attempt::post(path::DRY_RUN, &task).expect(host, &[401]).await?;
    let forged = format!("{USER_HEADER}: {OPERATOR_USER}");
    let with_groups = [forged.as_str(), "X-Remote-Group: system:masters"];
    Attempt::post(path::TASKS, &task).with(&with_groups).expect(host, &[401]).await?;
    let hop = format!("Connection: {USER_HEADER}");
    Attempt::post(path::TASKS, &task).with(&[&forged, &hop]).expect(host, &[400, 401]).await?;
    Attempt::get(path::STATUS).with(&["Authorization: Bearer e30.e30.e30"]).expect(host, &[401]).await?;
    for target in AMBIGUOUS {
        let (code, body) = Attempt::get(target).send(host).await?;
        println!("answered with {code}: {target}");
        assert!(!body.contains("\"id\"") && !body.contains("tasks\":"), "{target}: {code} {body}");
        assert!(target.contains("healthz?") || code >= 400, "{target}: {code} {body}");
    }
    let sidecar = RawConnection::connect((host, port::SIDECAR as u16).into()).await;
    assert!(sidecar.is_err(), "the sidecar must listen on loopback only");
    println!("refused: connection to port {} of the sidecar", port::SIDECAR);
    nodes.wait_for_new_blocks(VALIDATOR).await?;
    Ok(())
}

/// Log level and internal state of the operator are served on loopback only. Asked from a pod: that is where an attacker would be.
pub async fn admin_endpoints_are_unreachable_from_pods(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?;
    let pods: Api<Pod> = Api::namespaced(nodes.plane().client().await?, OPERATOR_NAMESPACE);
    let selector = ListParams::default().labels("app.kubernetes.io/name=outrigger-operator");
    let operators = pods.list(&selector).await?;
    assert!(!operators.items.is_empty());
    let client = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "attacker", "namespace": NAMESPACE },
        "spec": {
            "automountServiceAccountToken": false,
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "attacker", "image": "outrigger.dev/outrigger:dev",
                "command": ["testbed-pod", "serve", "--port=8080"],
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    });
    kubectl::apply(nodes.plane(), &client.to_string())?;
    let wait = ["wait", "--for=condition=Ready", "--timeout=120s", "--namespace", NAMESPACE, "pod/attacker"];
    kubectl::run(nodes.plane(), &wait, None)?;
    for pod in operators {
        let Some(host) = pod.status.and_then(|status| status.pod_ip) else { continue };
        for (port, target) in [
            (8080, "/log-level"),
            (8080, "/debug/state.json"),
            (8081, "/log-level"),
            (8081, "/debug/state.json"),
            (8082, "/log-level"),
        ] {
            let url = format!("http://{host}:{port}{target}");
            let exec = ["exec", "--namespace", NAMESPACE, "attacker", "--", "testbed-pod", "get", &url];
            let refused = kubectl::run(nodes.plane(), &exec, None).expect_err(&url).to_string();
            assert!(refused.contains("404") || refused.contains("refused"), "{refused}");
            println!("refused: GET {url}");
        }
        let mut connection = RawConnection::connect((host.parse::<std::net::IpAddr>()?, 8081).into()).await?;
        connection.send("PUT /log-level HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\ntrace").await?;
        let response = connection.read_response("PUT").await?;
        assert_eq!(response.status, 404, "{}", response.text());
        println!("refused with 404: PUT /log-level");
    }
    Ok(())
}
