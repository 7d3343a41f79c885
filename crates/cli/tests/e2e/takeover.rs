//! A node that the operator before us has made.

use std::time::{Duration, Instant};

use api::SeiNode;
use api::names::{finalizer, manager};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use testbed::cluster::kubectl;
use testbed::demo::caller::Caller;
use testbed::demo::platform::{self, CHAIN, NAMESPACE, SEID, SEID_AGAIN, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, Error, TestResult};

use crate::ground::{self, since};

/// Where the operator of the platform does not look.
const BEFORE: &str = "before";

const NODE: &str = "heirloom";

/// Long enough for several looks at a node at rest.
const A_WHILE: Duration = Duration::from_secs(10);

/// What a namespace for nodes has, and somebody who may give them tasks.
fn namespace() -> String {
    let account = |name: &str| json!({ "kind": "ServiceAccount", "name": name, "namespace": BEFORE });
    let group = "rbac.authorization.k8s.io";
    let role = |kind: &str, name: &str| json!({ "apiGroup": group, "kind": kind, "name": name });
    let named = |name: &str| json!({ "name": name, "namespace": BEFORE });
    let tasks = json!({ "apiGroups": ["sei.io"], "resources": ["seinodetasks"], "verbs": ["create", "get"] });
    let items = [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": BEFORE } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("seid-node") }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("operator") }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": "before" },
            "roleRef": role("ClusterRole", "system:auth-delegator"), "subjects": [account("seid-node")],
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": named("operator"), "rules": [tasks],
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": named("operator"),
            "roleRef": role("Role", "operator"), "subjects": [account("operator")],
        }),
        platform::object_store_credentials(BEFORE),
    ];
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// Does what the operator before us does until a node runs.
async fn make(nodes: &SeiNodes<'_>) -> Result<(), Error> {
    let peers = json!({ "sei.io/chain": CHAIN, "sei.io/role": VALIDATOR });
    let node = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode",
        "metadata": { "name": NODE, "namespace": BEFORE, "finalizers": [finalizer::NODE] },
        "spec": {
            "chainId": CHAIN, "image": SEID, "fullNode": {},
            "peers": [{ "label": { "namespace": NAMESPACE, "selector": peers } }],
        },
    });
    kubectl::apply(nodes.plane(), &node.to_string())?;
    let objects = nodes.api::<SeiNode>();
    let uid = objects.get(NODE).await?.uid().unwrap_or_default();
    let manifests = platform::with_stand_ins(include_str!("before.yaml")).replace("NODE_UID", &uid);
    let manager = format!("--field-manager={}", manager::NODE);
    kubectl::run(nodes.plane(), &["apply", "--server-side", &manager, "--filename", "-"], Some(&manifests))?;
    let operator = Caller::with_token(nodes, &["create", "token", "operator", "--namespace", BEFORE])?;
    let validator = format!("{VALIDATOR}-0.{VALIDATOR}.{NAMESPACE}.svc.cluster.local");
    let sources = json!({ "sources": [{ "type": "dnsEndpoints", "endpoints": [validator] }] });
    for (task, params) in [
        ("configure-genesis", json!({})),
        ("config-apply", json!({ "mode": "full", "overrides": { "logging.level": "info" } })),
        ("discover-peers", sources),
        ("config-validate", json!({})),
        ("mark-ready", json!({})),
    ] {
        operator.have_done(nodes, NODE, task, &params).await?;
    }
    let status =
        json!({ "status": { "phase": "Running", "currentImage": SEID, "resolvedPeers": [validator] } });
    objects.patch_status(NODE, &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}

/// Our operator for that namespace, with the rights that are shipped. Proxies from before ask for no audience.
fn operator(cx: &Context, nodes: &SeiNodes<'_>) -> Result<Process, Error> {
    let (site, plane) = (nodes.plane().site(), nodes.plane());
    let token = kubectl::run(
        plane,
        &["create", "token", operator::install::ACCOUNT, "--namespace", operator::install::NAMESPACE],
        None,
    )?;
    let file = site.dir().join("token-of-the-operator");
    std::fs::write(&file, token.trim())
        .map_err(|source| Error::Io { what: format!("writing a token for {}", cx.name()), source })?;
    let mut program = Program::new("operator-of-before", binaries::path("outrigger")?).arg("operator");
    for (name, value) in platform::settings()? {
        if !name.contains("TOKEN") {
            program = program.env(name, value);
        }
    }
    program
        .flag("kubeconfig", plane.user(platform::OPERATOR_USER, None)?.write_kubeconfig(site.dir())?)
        .flag("sidecar-token-file", &file)
        .flag("watch-namespaces", BEFORE)
        .flag("pod-namespace", BEFORE)
        .flag("leader-elect", "false")
        .flag("metrics-bind-address", "0")
        .flag("health-probe-bind-address", "0")
        .start(site)
}

/// Its pod stays until its spec changes.
pub async fn a_node_of_the_operator_before_us_is_taken_over_without_a_pod_cycle(cx: Context) -> TestResult {
    let nodes = ground::with_validator(&cx).await?.of_namespace(BEFORE);
    kubectl::apply(nodes.plane(), &namespace())?;
    make(&nodes).await?;
    let height = nodes.grows(NODE).await?;
    let pod = nodes.pod(NODE).await?.uid();
    let begin = Instant::now();
    let operator = operator(&cx, &nodes)?;
    nodes.until(NODE, "it is taken over", is_ready).await?;
    println!("a node of the operator before us at {height}: taken over after {}", since(begin));
    let pods: Api<k8s_openapi::api::core::v1::Pod> = nodes.api();
    wait::throughout("the same pod", A_WHILE, || async {
        let now = pods.get(&format!("{NODE}-0")).await.map_err(|error| error.to_string())?;
        if now.uid() == pod { Ok(()) } else { Err("it is another one".to_owned()) }
    })
    .await?;
    assert_eq!(nodes.pod_deletions(NODE)?, 0);
    nodes.edit(NODE, &json!({ "image": SEID_AGAIN }))?;
    let node = nodes.until(NODE, "the edit", is_ready).await?;
    assert_eq!(node.status.and_then(|status| status.current_image).as_deref(), Some(SEID_AGAIN));
    assert_eq!(nodes.pod_deletions(NODE)?, 1);
    assert!(nodes.grows(NODE).await? > height, "it goes on where it was");
    operator.check_alive()?;
    Ok(())
}
