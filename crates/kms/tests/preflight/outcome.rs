//! What a check proves, and that it is stored.

use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::cluster::openshift;
use testbed::fakes::kms_plugin::{DecryptFault, KmsPlugin};
use testbed::harness::wait;
use testbed::{Context, TestResult};
use tonic::Code;

use crate::ground::{Ground, OPERAND, kms};

/// T-F1, rows 2b, 3d, 3e and 1a.
pub async fn a_configuration_that_works_is_proved_and_nothing_of_the_check_is_left(
    cx: Context,
) -> TestResult {
    let mut ground = Ground::new(&cx, "KubeAPIServer").await?;
    let plugin = KmsPlugin::start("kms-1", &ground.folder)?;
    let hash = ground.ask().await?;
    ground.start()?;
    let pod = ground.pod(None).await?;
    let pod = serde_json::to_value(&pod)?;
    let annotation = &pod["metadata"]["annotations"]["encryption.apiserver.operator.openshift.io/kms-preflight-config-hash"];
    assert_eq!(annotation, &json!(hash));
    assert_eq!(pod["metadata"]["labels"]["app"], "openshift-kms-preflight");
    let spec = &pod["spec"];
    assert_eq!((&spec["restartPolicy"], &spec["hostNetwork"]), (&json!("Never"), &json!(true)));
    assert_eq!(spec["readinessGates"][0]["conditionType"], "KMSPreflightResult");
    assert_eq!(spec["initContainers"][0]["name"], "vault-kms-plugin-1");
    let args = spec["containers"][0]["args"].as_array().cloned().unwrap_or_default();
    assert_eq!(args.last(), Some(&json!("--kms-sockets=unix:///var/run/kmsplugin/kms-1.sock")));
    ground.told("Progressing", "True", "RunningPreflightCheck").await?;
    assert_eq!(ground.result().await?, Value::Null);
    let output = ground.check(&hash, &[1]).await?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ground.gone().await?;
    let expected = json!({ "status": "Succeeded", "configHash": hash, "remoteKeyID": plugin.key_id() });
    assert_eq!(ground.result().await?, expected);
    ground.told("Progressing", "False", "AsExpected").await?;
    ground.told("Degraded", "False", "AsExpected").await?;
    // Its rights stay for the next one.
    let accounts: Api<ServiceAccount> = Api::namespaced(ground.client.clone(), OPERAND);
    accounts.get("kms-preflight").await?;
    // At rest nothing is written.
    let before = ground.operator().await?.metadata.resource_version;
    wait::throughout("the resource to be left alone", std::time::Duration::from_secs(3), || async {
        let now = ground.operator().await.map_err(|error| error.to_string())?.metadata.resource_version;
        if now == before { Ok(()) } else { Err("it was written".to_owned()) }
    })
    .await?;
    Ok(())
}

/// T-F1, rows 3f and 2a; T-F4; T-F6.
pub async fn a_failure_is_stored_told_and_tried_again_when_asked(cx: Context) -> TestResult {
    let mut ground = Ground::new(&cx, "KubeAPIServer").await?;
    let plugin = KmsPlugin::start("kms-1", &ground.folder)?;
    let denied =
        DecryptFault::Error(Code::PermissionDenied, "token hvs.CAESIJsecretsecretsecretsecret".into());
    plugin.script(|script| script.decrypt = Some(denied));
    let hash = ground.ask().await?;
    ground.start()?;
    let first = ground.pod(None).await?;
    let output = ground.check(&hash, &[1]).await?;
    assert_eq!(
        output.status.code(),
        Some(0),
        "a posted failure ends well: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let message = ground.told("Degraded", "True", "PreflightCheckFailed").await?;
    assert!(message.contains("kms-1.sock: decrypt failed: RpcError(PermissionDenied)"), "{message}");
    assert!(!message.contains("hvs.CAES"), "{message}");
    let failed = json!({ "status": "Failed", "configHash": hash, "remoteKeyID": plugin.key_id() });
    assert_eq!(ground.result().await?, failed);
    // The steps are on the pod, which is kept.
    let pod = ground.pods().get("kms-preflight").await?;
    let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
    let steps = conditions.iter().find(|one| one.type_ == "outrigger.dev/KMSPreflightSteps");
    let steps: Value =
        serde_json::from_str(steps.and_then(|one| one.message.as_deref()).unwrap_or_default())?;
    assert_eq!(steps[0]["steps"][7]["outcome"], "failed");
    // What a pod becomes after it has posted changes nothing.
    ground.becomes(json!({ "phase": "Failed" })).await?;
    wait::throughout("the result to stay", std::time::Duration::from_secs(2), || async {
        let (_, reason, _) = ground.condition("Degraded").await.map_err(|error| error.to_string())?;
        if reason == "PreflightCheckFailed" { Ok(()) } else { Err(reason) }
    })
    .await?;
    // The KMS is mended; nobody changes the configuration.
    plugin.heal()?;
    ground.retry("1").await?;
    let second = ground.pod(Some(&first)).await?;
    let attempt =
        second.metadata.annotations.unwrap_or_default()["outrigger.dev/kms-preflight-attempt"].clone();
    assert_eq!(attempt, "2");
    assert!(ground.check(&hash, &[1]).await?.status.success());
    ground.gone().await?;
    assert_eq!(ground.result().await?["status"], "Succeeded");
    ground.told("Degraded", "False", "AsExpected").await?;
    Ok(())
}

/// T-F1 and T-F5; the published schema requires a key id also of a failure.
pub async fn a_failure_without_a_key_id_is_stored_too_and_the_old_plugin_counts(cx: Context) -> TestResult {
    let mut ground = Ground::new(&cx, "OpenShiftAPIServer").await?;
    deployed(&ground, 4).await?;
    let hash = ground.ask().await?;
    // The upstream hazard, on the published schema.
    let operators: Api<kube::api::DynamicObject> =
        Api::all_with(ground.client.clone(), &openshift::resource("OpenShiftAPIServer"));
    let without = json!({ "status": "Failed", "configHash": hash });
    let patch = json!({ "status": { "encryptionStatus": { "preflight": { "result": without } } } });
    let refused = operators.patch_status("cluster", &PatchParams::default(), &Patch::Merge(&patch)).await;
    let said = refused.expect_err("a result without a key id is refused").to_string();
    assert!(said.contains("remoteKeyID: Required value"), "{said}");

    ground.start()?;
    let pod = serde_json::to_value(ground.pod(None).await?)?;
    let plugins: Vec<&Value> =
        pod["spec"]["initContainers"].as_array().into_iter().flatten().map(|one| &one["name"]).collect();
    assert_eq!(plugins, ["vault-kms-plugin-5", "vault-kms-plugin-4"]);
    assert_eq!(pod["spec"]["hostNetwork"], Value::Null);
    // The new plugin never comes up, and the old one is well: there is no key id.
    let old = KmsPlugin::start("kms-4", &ground.folder)?;
    assert!(ground.check(&hash, &[5, 4]).await?.status.success());
    let message = ground.told("Degraded", "True", "PreflightCheckFailed").await?;
    assert!(message.contains("kms-5.sock: status failed: SocketMissing"), "{message}");
    assert_eq!(
        ground.result().await?,
        json!({ "status": "Failed", "configHash": hash, "remoteKeyID": "unknown" })
    );
    // The new one is well, and the old one is not: what it encrypted could not be read.
    let before = ground.pods().get("kms-preflight").await?;
    let _new = KmsPlugin::start("kms-5", &ground.folder)?;
    old.script(|script| script.healthz = b"sealed".to_vec());
    ground.retry("now").await?;
    ground.pod(Some(&before)).await?;
    assert!(ground.check(&hash, &[5, 4]).await?.status.success());
    let message = ground.told_of("kms-4.sock").await?;
    assert!(message.contains("kms-4.sock: status failed: NotOk: sealed"), "{message}");
    Ok(())
}

/// A configuration with one plugin is in use already.
async fn deployed(ground: &Ground, id: u64) -> Result<(), crate::ground::Error> {
    let provider = json!({ "kms": { "apiVersion": "v2", "name": format!("{id}_routes"), "endpoint": format!("unix:///var/run/kmsplugin/kms-{id}.sock") } });
    let config = json!({ "kind": "EncryptionConfiguration", "resources": [{ "resources": ["routes"], "providers": [provider] }] });
    let mut data = json!({ "encryption-config": config.to_string() });
    let envelope = json!({ "spec": { "encryption": kms("https://old.example.com") } });
    data[format!("kms-plugin-config-{id}")] = json!(envelope.to_string());
    for key in ["role-id", "secret-id"] {
        data[format!("kms-plugin-secret-vault-approle_{key}-{id}")] = json!("old");
    }
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "encryption-config" }, "stringData": data });
    let api: Api<Secret> = Api::namespaced(ground.client.clone(), OPERAND);
    api.patch("encryption-config", &PatchParams::apply("test"), &Patch::Apply(&secret)).await?;
    Ok(())
}

pub async fn every_kind_of_operator_resource_is_served(cx: Context) -> TestResult {
    let mut ground = Ground::new(&cx, "Authentication").await?;
    let plugin = KmsPlugin::start("kms-1", &ground.folder)?;
    let hash = ground.ask().await?;
    ground.start()?;
    ground.pod(None).await?;
    assert!(ground.check(&hash, &[1]).await?.status.success());
    ground.gone().await?;
    let expected = json!({ "status": "Succeeded", "configHash": hash, "remoteKeyID": plugin.key_id() });
    assert_eq!(ground.result().await?, expected);
    // The checker may speak of its own pod only.
    let roles: Api<Role> = Api::namespaced(ground.client.clone(), OPERAND);
    let rules = serde_json::to_value(roles.get("kms-preflight").await?.rules)?;
    assert_eq!(rules[1]["resourceNames"], json!(["kms-preflight"]));
    Ok(())
}

/// T-F6 in real time: nobody changes the configuration, and nobody asks.
pub async fn what_failed_is_tried_again_after_its_wait(cx: Context) -> TestResult {
    let mut ground = Ground::new(&cx, "KubeAPIServer").await?;
    let plugin = KmsPlugin::start("kms-1", &ground.folder)?;
    plugin.script(|script| script.version = b"v1".to_vec());
    let hash = ground.ask().await?;
    ground.start_with(|program| program.flag("resync", "1h").flag("retry-after", "2s,5s"))?;
    let mut before = None;
    for (attempt, wait) in [(1, 2), (2, 5), (3, 5)] {
        let pod = ground.pod(before.as_ref()).await?;
        let made = pod.metadata.creation_timestamp.clone().map(|time| time.0);
        assert_eq!(pod.annotations()["outrigger.dev/kms-preflight-attempt"], attempt.to_string());
        if let Some(before) = &before {
            let passed = made.unwrap().duration_since(posted(before)?).as_secs();
            // Both times are of whole seconds.
            let least = if attempt == 2 { 2 } else { 5 };
            assert!(passed >= least - 1, "try {attempt} came {passed} s after the failure before it");
        }
        assert!(ground.check(&hash, &[1]).await?.status.success());
        let message = ground.told_of(&format!("(attempt {attempt}; next attempt after {wait}s)")).await?;
        assert!(message.contains("BadVersion"), "{message}");
        before = Some(ground.pods().get("kms-preflight").await?);
    }
    plugin.heal()?;
    ground.pod(before.as_ref()).await?;
    assert!(ground.check(&hash, &[1]).await?.status.success());
    ground.gone().await?;
    assert_eq!(ground.result().await?["status"], "Succeeded");
    ground.told("Degraded", "False", "AsExpected").await?;
    Ok(())
}

/// When a pod posted its result.
fn posted(pod: &Pod) -> Result<Timestamp, crate::ground::Error> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let found = conditions.into_iter().find(|one| one.type_ == "KMSPreflightResult");
    let time = found.and_then(|one| one.last_transition_time.clone()).map(|time| time.0);
    time.ok_or_else(|| "it has posted nothing".into())
}
