//! The checker in real pods on real nodes.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as NodeObject;
use k8s_openapi::api::core::v1::{Pod, PodCondition, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use plan::kms::preflight::{render_role, render_role_binding, render_service_account};
use serde_json::{Value, json};
use testbed::cluster::pod::GOOD_SECRET_ID;
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Image, Node, TestResult};

use crate::fixture::{Fixture, plugin_image};

/// Timeout for a pod to end: the checker waits 30 s for an unhealthy plugin.
const POD_TIMEOUT: Duration = Duration::from_secs(120);

/// T-F1 and T-F4 with a kubelet: the checker posts its result before the pod ends, and the kubelet keeps the conditions.
pub async fn checker_posts_result_before_pod_ends(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).controllers().scheduler().start().await?;
    // The checker finds the API server by the environment of its service account, without DNS.
    let image = Image::outrigger()?;
    let _node = Node::builder(&plane).image(&image).start().await?;
    let client = plane.client().await?;
    let namespace = plane.namespace("preflight").await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let roles: Api<Role> = Api::namespaced(client.clone(), &namespace);
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), &namespace);
    let params = PostParams::default();
    accounts.create(&params, &render_service_account(&namespace)?).await?;
    roles.create(&params, &render_role(&namespace, &[])?).await?;
    bindings.create(&params, &render_role_binding(&namespace)?).await?;
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let sockets = tempfile::tempdir()?;
    let plugin = FakeKmsPlugin::start("kms-1", sockets.path())?;
    for (healthz, status, reason) in [("ok", "True", "Succeeded"), ("sealed", "False", "Failed")] {
        plugin.script(|script| script.healthz = healthz.as_bytes().to_vec());
        pods.create(&params, &serde_json::from_value(checker(&namespace, sockets.path()))?).await?;
        let ended = wait::until("the checker to end", POD_TIMEOUT, || async {
            let pod = pods.get("kms-preflight").await.map_err(|error| error.to_string())?;
            let status = pod.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Succeeded" | "Failed") => Ok(status),
                _ => Err(format!("{status:?}")),
            }
        });
        let ended = ended.await?;
        assert_eq!(ended.phase.as_deref(), Some("Succeeded"), "a posted result exits with 0: {ended:?}");
        let conditions = ended.conditions.unwrap_or_default();
        let condition = |name: &str| -> PodCondition {
            conditions.iter().find(|one| one.type_ == name).cloned().unwrap_or_default()
        };
        let result = condition("KMSPreflightResult");
        assert_eq!((result.status.as_str(), result.reason.as_deref()), (status, Some(reason)), "{result:?}");
        assert_eq!(condition("KMSPreflightConfigHash").message.as_deref(), Some("cuZm_g=="));
        assert_eq!(condition("KMSPreflightRemoteKeyID").message.as_deref(), Some(plugin.key_id().as_str()));
        pods.delete("kms-preflight", &DeleteParams::default()).await?;
        wait::until("the pod to be gone", POD_TIMEOUT, || async {
            match pods.get_opt("kms-preflight").await {
                Ok(None) => Ok(()),
                other => Err(format!("{}", other.is_ok())),
            }
        })
        .await?;
    }
    Ok(())
}

/// End to end: the controller creates the pod with the plugin as a sidecar, and a kubelet runs it. The check fails with the plugin's
/// message for invalid credentials, and succeeds for valid ones.
pub async fn config_is_checked_by_its_plugin_in_a_real_pod(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).controllers().scheduler().start().await?;
    let (outrigger, plugin) = (Image::outrigger()?, Image::kms_plugin()?);
    let node = Node::builder(&plane).image(&outrigger).image_as(&plugin, plugin_image()).start().await?;
    let mut fixture = Fixture::on(plane, &cx, "KubeAPIServer").await?;
    let nodes: Api<NodeObject> = Api::all(fixture.client.clone());
    let label = json!({ "metadata": { "labels": { "node-role.kubernetes.io/master": "" } } });
    nodes.patch(node.name(), &PatchParams::default(), &Patch::Merge(&label)).await?;

    fixture.set_credentials("no-longer-valid").await?;
    let rejected = fixture.request_check().await?;
    fixture.start()?;
    let message =
        fixture.until_condition_within("Degraded", "True", "PreflightCheckFailed", POD_TIMEOUT).await?;
    assert!(message.starts_with(&format!("node {}: ", node.name())), "{message}");
    assert!(message.contains("NotOk: login: invalid secret id"), "{message}");
    let result = fixture.result().await?;
    assert_eq!((&result["status"], &result["configHash"]), (&json!("Failed"), &json!(rejected)));
    // The plugin ran as a sidecar of the check pod.
    let name = format!("kms-preflight-{}", node.name());
    let pod = fixture.wait_for_pod_named(&name, None).await?;
    let status = pod.status.unwrap_or_default();
    let sidecars = status.init_container_statuses.unwrap_or_default();
    assert_eq!(sidecars.len(), 1, "{sidecars:?}");
    assert!(
        sidecars[0].name.starts_with("vault-kms-plugin-") && sidecars[0].restart_count == 0,
        "{sidecars:?}"
    );

    fixture.set_credentials(GOOD_SECRET_ID).await?;
    let expected = fixture.request_check().await?;
    let result = wait::until("a result for the new credentials", POD_TIMEOUT, || async {
        let result = fixture.result().await.map_err(|error| error.to_string())?;
        if result["configHash"] == expected { Ok(result) } else { Err(result.to_string()) }
    })
    .await?;
    assert_eq!(result["status"], "Succeeded", "{result}");
    fixture.until_condition("Degraded", "False", "AsExpected").await?;
    fixture.until_cleaned_up().await?;
    let key = result["remoteKeyID"].as_str().unwrap_or_default();
    assert!(!key.is_empty() && key != "unknown", "the key id of the plugin: {result}");
    Ok(())
}

/// Returns a check pod that uses the sockets of a plugin in this process instead of sidecars.
fn checker(namespace: &str, sockets: &Path) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "kms-preflight", "namespace": namespace },
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": "kms-preflight",
            "readinessGates": [{ "conditionType": "KMSPreflightResult" }],
            "containers": [{
                "name": "kms-preflight-check",
                "image": "outrigger.dev/outrigger:dev",
                "imagePullPolicy": "Never",
                "command": ["/bin/outrigger", "kms-preflight"],
                "args": [
                    "--kms-sockets=unix:///var/run/kmsplugin/kms-1.sock",
                    "--kms-call-timeout=5s",
                    "--config-hash=cuZm_g==",
                    "--pod-name=kms-preflight",
                    format!("--pod-namespace={namespace}"),
                ],
                "securityContext": { "runAsUser": 0 },
                "volumeMounts": [{ "name": "kms-plugin-socket", "mountPath": "/var/run/kmsplugin" }],
            }],
            "volumes": [{ "name": "kms-plugin-socket", "hostPath": { "path": sockets } }],
        },
    })
}
