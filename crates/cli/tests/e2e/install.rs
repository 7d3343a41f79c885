//! The operator, installed with kubectl.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use operator::install::{ACCOUNT, NAMESPACE};
use serde_json::json;
use testbed::cluster::kubectl;
use testbed::demo::platform::{OPERATOR, OPERATOR_USER};
use testbed::demo::sei_nodes::SOON;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

/// The pod that leads. Its name is the beginning of what it calls itself.
async fn leader(leases: &Api<Lease>, unlike: &str) -> Result<String, Error> {
    wait::until("an operator that leads", SOON, || async {
        let lease = leases.get(api::names::lease::OPERATOR).await.map_err(|error| error.to_string())?;
        let holder = lease.spec.unwrap_or_default().holder_identity.unwrap_or_default();
        let pod = holder.split('_').next().unwrap_or_default();
        if pod.is_empty() || pod == unlike {
            Err(format!("it is held by {holder:?}"))
        } else {
            Ok(pod.to_owned())
        }
    })
    .await
}

/// The namespace enforces the strictest of the standards, so that pods that run there keep to it.
pub async fn the_manifests_install_an_operator_of_which_another_takes_over(cx: Context) -> TestResult {
    let platform = cx.platform().await?;
    let plane = platform.plane();
    let client = plane.client().await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    wait::until("both operators to be ready", SOON, || async {
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
    let requests = plane.audit().requests(|one| one.user == OPERATOR_USER)?;
    assert!(requests.iter().any(|one| one.resource == "seinodes"), "it watches nodes");
    let refused: Vec<_> = requests.iter().filter(|one| one.code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
    // Named after the namespace: one name for all of them would take the rights of the first away with the second.
    let binding = [
        "get",
        "clusterrolebinding",
        "outrigger:node-proxy:sei",
        "--output=jsonpath={.subjects[*].namespace}",
    ];
    assert_eq!(kubectl::run(plane, &binding, None)?, "sei");
    // Applied once more, nothing changes.
    let before = deployments.get(ACCOUNT).await?.metadata.generation;
    platform.install()?;
    assert_eq!(deployments.get(ACCOUNT).await?.metadata.generation, before);
    Ok(())
}

/// `kubectl describe pod` shows the message of a container that has ended.
pub async fn an_operator_without_settings_says_what_is_missing_where_people_look(cx: Context) -> TestResult {
    let plane = cx.platform().await?.plane();
    let ns = plane.namespace(cx.name()).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "forgetful", "namespace": ns },
        "spec": { "restartPolicy": "Never", "containers": [{
            "name": "operator", "image": "outrigger.dev/outrigger:dev", "args": ["operator"],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }] },
    });
    kubectl::apply(plane, &pod.to_string())?;
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, &ns);
    let (code, message) = wait::until("its end", SOON, || async {
        let status =
            pods.get("forgetful").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        let container = status.container_statuses.unwrap_or_default().into_iter().next();
        let ended = container.and_then(|one| one.state?.terminated);
        ended.map(|ended| (ended.exit_code, ended.message.unwrap_or_default())).ok_or("it runs".to_owned())
    })
    .await?;
    assert_eq!(code, 2, "{message}");
    for setting in ["--nodepool-name (SEI_NODEPOOL_NAME): is missing", "--cosmos-exporter-image"] {
        assert!(message.contains(setting), "{message}");
    }
    Ok(())
}
