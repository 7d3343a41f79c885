//! The checker in real pods.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as Machine;
use k8s_openapi::api::core::v1::{Pod, PodCondition, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use plan::kms::preflight::{role, role_binding, service_account};
use serde_json::{Value, json};
use testbed::cluster::pod::GOOD_SECRET_ID;
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Image, Node, TestResult};

use crate::ground::{Ground, plugin_image};

/// How long a pod may take until it has ended: the checker waits half a minute for a plugin that is not well.
const ENDED: Duration = Duration::from_secs(120);

/// T-F1 and T-F4 with a kubelet: what was found is posted before the pod ends, and the kubelet keeps it.
pub async fn a_checker_in_a_real_pod_posts_what_it_finds(cx: Context) -> TestResult {
    let plane = ControlPlane::on(&cx.site()?).controllers().scheduler().start().await?;
    // One node is enough, and the checker finds the API server without names.
    let image = Image::outrigger()?;
    let _node = Node::on(&plane).image(&image).start().await?;
    let client = plane.client().await?;
    let namespace = plane.namespace("preflight").await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let roles: Api<Role> = Api::namespaced(client.clone(), &namespace);
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), &namespace);
    let params = PostParams::default();
    accounts.create(&params, &service_account(&namespace)?).await?;
    roles.create(&params, &role(&namespace, &[])?).await?;
    bindings.create(&params, &role_binding(&namespace)?).await?;
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let folder = tempfile::tempdir()?;
    let plugin = KmsPlugin::start("kms-1", folder.path())?;
    for (healthz, status, reason) in [("ok", "True", "Succeeded"), ("sealed", "False", "Failed")] {
        plugin.script(|script| script.healthz = healthz.as_bytes().to_vec());
        pods.create(&params, &serde_json::from_value(checker(&namespace, folder.path()))?).await?;
        let ended = wait::until("the checker to end", ENDED, || async {
            let pod = pods.get("kms-preflight").await.map_err(|error| error.to_string())?;
            let status = pod.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Succeeded" | "Failed") => Ok(status),
                _ => Err(format!("{status:?}")),
            }
        });
        let ended = ended.await?;
        assert_eq!(ended.phase.as_deref(), Some("Succeeded"), "what was found was posted: {ended:?}");
        let conditions = ended.conditions.unwrap_or_default();
        let found = |name: &str| -> PodCondition {
            conditions.iter().find(|one| one.type_ == name).cloned().unwrap_or_default()
        };
        let result = found("KMSPreflightResult");
        assert_eq!((result.status.as_str(), result.reason.as_deref()), (status, Some(reason)), "{result:?}");
        assert_eq!(found("KMSPreflightConfigHash").message.as_deref(), Some("cuZm_g=="));
        assert_eq!(found("KMSPreflightRemoteKeyID").message.as_deref(), Some(plugin.key_id().as_str()));
        pods.delete("kms-preflight", &DeleteParams::default()).await?;
        wait::until("the pod to be gone", ENDED, || async {
            match pods.get_opt("kms-preflight").await {
                Ok(None) => Ok(()),
                other => Err(format!("{}", other.is_ok())),
            }
        })
        .await?;
    }
    Ok(())
}

/// Section 4 as a whole: the controller makes the pod, with the plugin as a container of it, and a kubelet runs it. With credentials
/// that the KMS does not take the check fails, and says what the plugin said; with others it is proved.
pub async fn a_configuration_is_proved_by_its_plugin_in_a_real_pod(cx: Context) -> TestResult {
    let plane = ControlPlane::on(&cx.site()?).controllers().scheduler().start().await?;
    let (ours, plugin) = (Image::outrigger()?, Image::kms_plugin()?);
    let node = Node::on(&plane).image(&ours).image_as(&plugin, plugin_image()).start().await?;
    let mut ground = Ground::on(plane, &cx, "KubeAPIServer").await?;
    let machines: Api<Machine> = Api::all(ground.client.clone());
    let label = json!({ "metadata": { "labels": { "node-role.kubernetes.io/master": "" } } });
    machines.patch(node.name(), &PatchParams::default(), &Patch::Merge(&label)).await?;

    ground.credentials("no-longer-valid").await?;
    let refused = ground.ask().await?;
    ground.start()?;
    let message = ground.told_within("Degraded", "True", "PreflightCheckFailed", ENDED).await?;
    assert!(message.starts_with(&format!("node {}: ", node.name())), "{message}");
    assert!(message.contains("NotOk: login: invalid secret id"), "{message}");
    let result = ground.result().await?;
    assert_eq!((&result["status"], &result["configHash"]), (&json!("Failed"), &json!(refused)));
    // The plugin was asked in the pod, by nobody else.
    let name = format!("kms-preflight-{}", node.name());
    let pod = ground.pod_named(&name, None).await?;
    let status = pod.status.unwrap_or_default();
    let sidecars = status.init_container_statuses.unwrap_or_default();
    assert_eq!(sidecars.len(), 1, "{sidecars:?}");
    assert!(
        sidecars[0].name.starts_with("vault-kms-plugin-") && sidecars[0].restart_count == 0,
        "{sidecars:?}"
    );

    ground.credentials(GOOD_SECRET_ID).await?;
    let wanted = ground.ask().await?;
    let result = wait::until("a result of the other credentials", ENDED, || async {
        let result = ground.result().await.map_err(|error| error.to_string())?;
        if result["configHash"] == wanted { Ok(result) } else { Err(result.to_string()) }
    })
    .await?;
    assert_eq!(result["status"], "Succeeded", "{result}");
    ground.told("Degraded", "False", "AsExpected").await?;
    ground.gone().await?;
    let key = result["remoteKeyID"].as_str().unwrap_or_default();
    assert!(!key.is_empty() && key != "unknown", "the id of the plugin's own key: {result}");
    Ok(())
}

/// The pod of a check, with the sockets of a plugin that runs in this process in place of plugins of its own.
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
