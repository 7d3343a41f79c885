//! Adoption of a node created by the upstream controller.

use std::time::{Duration, Instant};

use api::SeiNode;
use api::names::{finalizer, manager};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::cluster::kubectl;
use testbed::demo::platform::{self, CHAIN, NAMESPACE, SEID, SEID_ALIAS, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::demo::sidecar_client::SidecarClient;
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, Error, TestResult};

use crate::fixture::{self, since};

/// Namespace that the platform's operator does not watch.
pub const LEGACY_NAMESPACE: &str = "legacy";

const NODE: &str = "legacy-node";

/// Long enough for several reconciles of a converged node.
const STEADY_STATE: Duration = Duration::from_secs(10);

/// Returns the manifests of a namespace for nodes and of a service account that may submit tasks.
fn namespace_manifests() -> String {
    let group = "rbac.authorization.k8s.io";
    let named = |name: &str| json!({ "name": name, "namespace": LEGACY_NAMESPACE });
    let tasks = json!({ "apiGroups": ["sei.io"], "resources": ["seinodetasks"], "verbs": ["create", "get"] });
    let items = [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": LEGACY_NAMESPACE } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("operator") }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": named("operator"), "rules": [tasks],
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": named("operator"),
            "roleRef": { "apiGroup": group, "kind": "Role", "name": "operator" },
            "subjects": [{ "kind": "ServiceAccount", "name": "operator", "namespace": LEGACY_NAMESPACE }],
        }),
        platform::object_store_credentials(LEGACY_NAMESPACE),
    ];
    // The ServiceAccount of the pods, and what our operator needs in a namespace of nodes.
    let items: Vec<Value> =
        items.into_iter().chain(operator::install::node_namespace(LEGACY_NAMESPACE)).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// Creates a running node the way the upstream controller does.
async fn create_legacy_node(nodes: &SeiNodes<'_>) -> Result<(), Error> {
    let peers = json!({ "sei.io/chain": CHAIN, "sei.io/role": VALIDATOR });
    let node = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode",
        "metadata": { "name": NODE, "namespace": LEGACY_NAMESPACE, "finalizers": [finalizer::NODE] },
        "spec": {
            "chainId": CHAIN, "image": SEID, "fullNode": {},
            "peers": [{ "label": { "namespace": NAMESPACE, "selector": peers } }],
        },
    });
    kubectl::apply(nodes.plane(), &node.to_string())?;
    let objects = nodes.api::<SeiNode>();
    let uid = objects.get(NODE).await?.uid().unwrap_or_default();
    let manifests = platform::with_local_images(include_str!("legacy-node.yaml")).replace("NODE_UID", &uid);
    let manager = format!("--field-manager={}", manager::NODE);
    kubectl::run(nodes.plane(), &["apply", "--server-side", &manager, "--filename", "-"], Some(&manifests))?;
    let operator =
        SidecarClient::with_token(nodes, &["create", "token", "operator", "--namespace", LEGACY_NAMESPACE])?;
    let validator = format!("{VALIDATOR}-0.{VALIDATOR}.{NAMESPACE}.svc.cluster.local");
    let sources = json!({ "sources": [{ "type": "dnsEndpoints", "endpoints": [validator] }] });
    for (task, params) in [
        ("configure-genesis", json!({})),
        ("config-apply", json!({ "mode": "full", "overrides": { "logging.level": "info" } })),
        ("discover-peers", sources),
        ("config-validate", json!({})),
        ("mark-ready", json!({})),
    ] {
        operator.run_task(nodes, NODE, task, &params).await?;
    }
    let status =
        json!({ "status": { "phase": "Running", "currentImage": SEID, "resolvedPeers": [validator] } });
    objects.patch_status(NODE, &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}

/// Starts our operator for that namespace with the shipped RBAC. The proxy of a legacy node requires no token audience.
fn start_operator(cx: &Context, nodes: &SeiNodes<'_>) -> Result<Process, Error> {
    let (site, plane) = (nodes.plane().site(), nodes.plane());
    let token = kubectl::run(
        plane,
        &["create", "token", operator::install::ACCOUNT, "--namespace", operator::install::NAMESPACE],
        None,
    )?;
    let file = site.dir().join("operator-token");
    std::fs::write(&file, token.trim())
        .map_err(|source| Error::Io { what: format!("writing a token for {}", cx.name()), source })?;
    let mut program = Program::new("legacy-namespace-operator", binaries::path("outrigger")?).arg("operator");
    for (name, value) in platform::operator_settings()? {
        program = program.env(name, value);
    }
    program
        .flag("kubeconfig", plane.user(platform::OPERATOR_USER, None)?.write_kubeconfig(site.dir())?)
        .flag(
            "token-service-account",
            format!("{}/{}", operator::install::NAMESPACE, operator::install::ACCOUNT),
        )
        .flag("legacy-sidecar-token-file", &file)
        .flag("watch-namespaces", LEGACY_NAMESPACE)
        .flag("pod-namespace", LEGACY_NAMESPACE)
        .flag("leader-elect", "false")
        .flag("metrics-bind-address", "0")
        .flag("health-probe-bind-address", "0")
        .start(site)
}

/// The pod is kept until the spec changes.
pub async fn legacy_node_is_adopted_without_pod_cycle(cx: Context) -> TestResult {
    let nodes = fixture::with_validator(&cx).await?.in_namespace(LEGACY_NAMESPACE);
    kubectl::apply(nodes.plane(), &namespace_manifests())?;
    create_legacy_node(&nodes).await?;
    let height = nodes.wait_for_new_blocks(NODE).await?;
    let pod = nodes.pod(NODE).await?.uid();
    let begin = Instant::now();
    let operator = start_operator(&cx, &nodes)?;
    nodes.wait_until(NODE, "node to be adopted", is_ready).await?;
    println!("legacy node at height {height}: adopted after {}", since(begin));
    let pods: Api<k8s_openapi::api::core::v1::Pod> = nodes.api();
    wait::throughout("unchanged pod", STEADY_STATE, || async {
        let now = pods.get(&format!("{NODE}-0")).await.map_err(|error| error.to_string())?;
        if now.uid() == pod { Ok(()) } else { Err("pod was replaced".to_owned()) }
    })
    .await?;
    assert_eq!(nodes.pod_deletions(NODE)?, 0);
    nodes.edit(NODE, &json!({ "image": SEID_ALIAS }))?;
    let node = nodes.wait_until(NODE, "edit to be applied", is_ready).await?;
    assert_eq!(node.status.and_then(|status| status.current_image).as_deref(), Some(SEID_ALIAS));
    assert_eq!(nodes.pod_deletions(NODE)?, 1);
    assert!(nodes.wait_for_new_blocks(NODE).await? > height, "the node must continue at its height");
    operator.check_alive()?;
    Ok(())
}
