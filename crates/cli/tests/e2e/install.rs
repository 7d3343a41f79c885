//! Operator installation with kubectl.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use operator::install::{self, ACCOUNT, NAMESPACE};
use serde_json::{Value, json};
use testbed::cluster::control_plane::{Audit, AuditedRequest};
use testbed::cluster::kubectl;
use testbed::demo::platform::{self, OPERATOR, OPERATOR_AGENT, OPERATOR_USER};
use testbed::demo::sei_nodes::TIMEOUT;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::takeover;

/// Returns the leader pod, waiting until it differs from `previous`. The lease holder identity starts with the pod name.
async fn leader(leases: &Api<Lease>, previous: &str) -> Result<String, Error> {
    wait::until("a leader", TIMEOUT, || async {
        let lease = leases.get(api::names::lease::OPERATOR).await.map_err(|error| error.to_string())?;
        let holder = lease.spec.unwrap_or_default().holder_identity.unwrap_or_default();
        let pod = holder.split('_').next().unwrap_or_default();
        if pod.is_empty() || pod == previous {
            Err(format!("lease is held by {holder:?}"))
        } else {
            Ok(pod.to_owned())
        }
    })
    .await
}

/// The namespace enforces the restricted Pod Security Standard.
pub async fn manifests_install_operator_with_failover(cx: Context) -> TestResult {
    let platform = cx.platform().await?;
    let plane = platform.plane();
    let client = plane.client().await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    wait::until("both operators to be ready", TIMEOUT, || async {
        let deployment = deployments.get(ACCOUNT).await.map_err(|error| error.to_string())?;
        let status = deployment.status.unwrap_or_default();
        if status.available_replicas == Some(2) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let first = leader(&leases, "").await?;
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    pods.delete(&first, &DeleteParams::default()).await?;
    let second = leader(&leases, &first).await?;
    assert_ne!(first, second);
    assert_eq!(OPERATOR, (NAMESPACE, ACCOUNT));
    assert_eq!(OPERATOR_USER, format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}"));
    // The name contains the namespace: with a shared name, a second namespace would take over the binding of the first.
    let binding = [
        "get",
        "clusterrolebinding",
        "outrigger:node-proxy:sei",
        "--output=jsonpath={.subjects[*].namespace}",
    ];
    assert_eq!(kubectl::run(plane, &binding, None)?, "sei");
    // Applying again is a no-op.
    let before = deployments.get(ACCOUNT).await?.metadata.generation;
    platform.install()?;
    assert_eq!(deployments.get(ACCOUNT).await?.metadata.generation, before);
    Ok(())
}

/// Runs last: no test made the operator send a request that its roles deny, or that only another role allowed.
pub async fn requests_of_all_tests_are_granted_by_the_roles(cx: Context) -> TestResult {
    let plane = cx.platform().await?.plane();
    let shipped = install::files().into_iter().filter(|(file, _)| *file == "operator/rbac.yaml");
    let mut documents: Vec<Value> = shipped.flat_map(|(_, all)| all).collect();
    for namespace in [platform::NAMESPACE, takeover::LEGACY_NAMESPACE] {
        documents.extend(install::node_namespace(namespace));
    }
    let is_own =
        |request: &AuditedRequest| request.user == OPERATOR_USER && request.user_agent == OPERATOR_AGENT;
    let requests = plane.audit().wait_for(1, TIMEOUT, is_own).await?;
    assert_eq!(Audit::ungranted(&requests, &documents), Vec::<String>::new());
    println!("{} requests of the operator, all granted by its roles, none denied", requests.len());
    Ok(())
}

/// `kubectl describe pod` shows the termination message.
pub async fn missing_settings_are_in_termination_message(cx: Context) -> TestResult {
    let plane = cx.platform().await?.plane();
    let ns = plane.namespace(cx.name()).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "unconfigured", "namespace": ns },
        "spec": { "restartPolicy": "Never", "containers": [{
            "name": "operator", "image": "outrigger.dev/outrigger:dev", "args": ["operator"],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }] },
    });
    kubectl::apply(plane, &pod.to_string())?;
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, &ns);
    let (code, message) = wait::until("the container to terminate", TIMEOUT, || async {
        let status =
            pods.get("unconfigured").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        let container = status.container_statuses.unwrap_or_default().into_iter().next();
        let terminated = container.and_then(|status| status.state?.terminated);
        terminated
            .map(|state| (state.exit_code, state.message.unwrap_or_default()))
            .ok_or("still running".to_owned())
    })
    .await?;
    assert_eq!(code, 2, "{message}");
    for setting in ["--nodepool-name (SEI_NODEPOOL_NAME): required", "--cosmos-exporter-image"] {
        assert!(message.contains(setting), "{message}");
    }
    Ok(())
}
