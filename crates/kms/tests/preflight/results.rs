//! Results of checks, and how they are stored.

use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::cluster::openshift;
use testbed::fakes::kms_plugin::{DecryptFault, FakeKmsPlugin};
use testbed::harness::wait;
use testbed::{Context, TestResult};
use tonic::Code;

use crate::fixture::{Fixture, OPERAND_NAMESPACE, vault_config};

/// T-F1: a check succeeds and is cleaned up.
pub async fn successful_check_is_stored_and_cleaned_up(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "KubeAPIServer").await?;
    let plugin = FakeKmsPlugin::start("kms-1", &fixture.sockets)?;
    let hash = fixture.request_check().await?;
    fixture.start()?;
    let pod = fixture.wait_for_pod(None).await?;
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
    fixture.until_condition("Progressing", "True", "RunningPreflightCheck").await?;
    assert_eq!(fixture.result().await?, Value::Null);
    let output = fixture.run_checker(&hash, &[1]).await?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fixture.until_cleaned_up().await?;
    let expected = json!({ "status": "Succeeded", "configHash": hash, "remoteKeyID": plugin.key_id() });
    assert_eq!(fixture.result().await?, expected);
    fixture.until_condition("Progressing", "False", "AsExpected").await?;
    fixture.until_condition("Degraded", "False", "AsExpected").await?;
    // RBAC is kept for the next check.
    let accounts: Api<ServiceAccount> = Api::namespaced(fixture.client.clone(), OPERAND_NAMESPACE);
    accounts.get("kms-preflight").await?;
    // In steady state nothing is written.
    let before = fixture.operator().await?.metadata.resource_version;
    wait::throughout("no writes to the resource", std::time::Duration::from_secs(3), || async {
        let now = fixture.operator().await.map_err(|error| error.to_string())?.metadata.resource_version;
        if now == before { Ok(()) } else { Err("written".to_owned()) }
    })
    .await?;
    Ok(())
}

/// T-F1, T-F4, T-F6: a check fails and is retried on request.
pub async fn failed_check_is_stored_and_retried_on_request(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "KubeAPIServer").await?;
    let plugin = FakeKmsPlugin::start("kms-1", &fixture.sockets)?;
    let denied =
        DecryptFault::Error(Code::PermissionDenied, "token hvs.CAESIJsecretsecretsecretsecret".into());
    plugin.script(|script| script.decrypt = Some(denied));
    let hash = fixture.request_check().await?;
    fixture.start()?;
    let first = fixture.wait_for_pod(None).await?;
    let output = fixture.run_checker(&hash, &[1]).await?;
    assert_eq!(
        output.status.code(),
        Some(0),
        "a posted failure exits with 0: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let message = fixture.until_condition("Degraded", "True", "PreflightCheckFailed").await?;
    assert!(message.contains("kms-1.sock: decrypt failed: RpcError(PermissionDenied)"), "{message}");
    assert!(!message.contains("hvs.CAES"), "{message}");
    let failed = json!({ "status": "Failed", "configHash": hash, "remoteKeyID": plugin.key_id() });
    assert_eq!(fixture.result().await?, failed);
    // The failed pod is kept, with the steps in its conditions.
    let pod = fixture.pods().get("kms-preflight").await?;
    let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
    let steps = conditions.iter().find(|one| one.type_ == "outrigger.dev/KMSPreflightSteps");
    let steps: Value =
        serde_json::from_str(steps.and_then(|one| one.message.as_deref()).unwrap_or_default())?;
    assert_eq!(steps[0]["steps"][7]["outcome"], "failed");
    // The phase of a pod with a posted result does not matter.
    fixture.set_pod_status(json!({ "phase": "Failed" })).await?;
    wait::throughout("the result to stay", std::time::Duration::from_secs(2), || async {
        let (_, reason, _) = fixture.condition("Degraded").await.map_err(|error| error.to_string())?;
        if reason == "PreflightCheckFailed" { Ok(()) } else { Err(reason) }
    })
    .await?;
    // The KMS recovers; the configuration does not change.
    plugin.recover()?;
    fixture.retry("1").await?;
    let second = fixture.wait_for_pod(Some(&first)).await?;
    let attempt =
        second.metadata.annotations.unwrap_or_default()["outrigger.dev/kms-preflight-attempt"].clone();
    assert_eq!(attempt, "2");
    assert!(fixture.run_checker(&hash, &[1]).await?.status.success());
    fixture.until_cleaned_up().await?;
    assert_eq!(fixture.result().await?["status"], "Succeeded");
    fixture.until_condition("Degraded", "False", "AsExpected").await?;
    Ok(())
}

/// T-F1, T-F5: the published schema requires a key id also for a failure. Plugins of the configuration in use are checked, too.
pub async fn failure_without_key_id_is_stored(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "OpenShiftAPIServer").await?;
    deploy_current_config(&fixture, 4).await?;
    let hash = fixture.request_check().await?;
    // The upstream controller sends no key id here, which the published schema rejects.
    let operators: Api<kube::api::DynamicObject> =
        Api::all_with(fixture.client.clone(), &openshift::resource("OpenShiftAPIServer"));
    let without = json!({ "status": "Failed", "configHash": hash });
    let patch = json!({ "status": { "encryptionStatus": { "preflight": { "result": without } } } });
    let rejected = operators.patch_status("cluster", &PatchParams::default(), &Patch::Merge(&patch)).await;
    let error = rejected.expect_err("a result without a key id is rejected").to_string();
    assert!(error.contains("remoteKeyID: Required value"), "{error}");

    fixture.start()?;
    let pod = serde_json::to_value(fixture.wait_for_pod(None).await?)?;
    let plugins: Vec<&Value> =
        pod["spec"]["initContainers"].as_array().into_iter().flatten().map(|one| &one["name"]).collect();
    assert_eq!(plugins, ["vault-kms-plugin-5", "vault-kms-plugin-4"]);
    assert_eq!(pod["spec"]["hostNetwork"], Value::Null);
    // The new plugin never starts and the old one is healthy: there is no key id.
    let old = FakeKmsPlugin::start("kms-4", &fixture.sockets)?;
    assert!(fixture.run_checker(&hash, &[5, 4]).await?.status.success());
    let message = fixture.until_condition("Degraded", "True", "PreflightCheckFailed").await?;
    assert!(message.contains("kms-5.sock: status failed: SocketMissing"), "{message}");
    assert_eq!(
        fixture.result().await?,
        json!({ "status": "Failed", "configHash": hash, "remoteKeyID": "unknown" })
    );
    // The new plugin is healthy and the old one is not: existing data could not be decrypted.
    let before = fixture.pods().get("kms-preflight").await?;
    let _new = FakeKmsPlugin::start("kms-5", &fixture.sockets)?;
    old.script(|script| script.healthz = b"sealed".to_vec());
    fixture.retry("now").await?;
    fixture.wait_for_pod(Some(&before)).await?;
    assert!(fixture.run_checker(&hash, &[5, 4]).await?.status.success());
    let message = fixture.until_degraded_message("kms-4.sock").await?;
    assert!(message.contains("kms-4.sock: status failed: NotOk: sealed"), "{message}");
    Ok(())
}

/// Creates the encryption configuration in use, with one plugin.
async fn deploy_current_config(fixture: &Fixture, id: u64) -> Result<(), crate::fixture::Error> {
    let provider = json!({ "kms": { "apiVersion": "v2", "name": format!("{id}_routes"), "endpoint": format!("unix:///var/run/kmsplugin/kms-{id}.sock") } });
    let config = json!({ "kind": "EncryptionConfiguration", "resources": [{ "resources": ["routes"], "providers": [provider] }] });
    let mut data = json!({ "encryption-config": config.to_string() });
    let envelope = json!({ "spec": { "encryption": vault_config("https://old.example.com") } });
    data[format!("kms-plugin-config-{id}")] = json!(envelope.to_string());
    for key in ["role-id", "secret-id"] {
        data[format!("kms-plugin-secret-vault-approle_{key}-{id}")] = json!("old");
    }
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "encryption-config" }, "stringData": data });
    let api: Api<Secret> = Api::namespaced(fixture.client.clone(), OPERAND_NAMESPACE);
    api.patch("encryption-config", &PatchParams::apply("test"), &Patch::Apply(&secret)).await?;
    Ok(())
}

pub async fn authentication_resource_is_supported(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "Authentication").await?;
    let plugin = FakeKmsPlugin::start("kms-1", &fixture.sockets)?;
    let hash = fixture.request_check().await?;
    fixture.start()?;
    fixture.wait_for_pod(None).await?;
    assert!(fixture.run_checker(&hash, &[1]).await?.status.success());
    fixture.until_cleaned_up().await?;
    let expected = json!({ "status": "Succeeded", "configHash": hash, "remoteKeyID": plugin.key_id() });
    assert_eq!(fixture.result().await?, expected);
    // The checker may update only its own pod.
    let roles: Api<Role> = Api::namespaced(fixture.client.clone(), OPERAND_NAMESPACE);
    let rules = serde_json::to_value(roles.get("kms-preflight").await?.rules)?;
    assert_eq!(rules[1]["resourceNames"], json!(["kms-preflight"]));
    Ok(())
}

/// T-F6 in real time: a failed check is retried without a change or request.
pub async fn failed_check_is_retried_after_delay(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "KubeAPIServer").await?;
    let plugin = FakeKmsPlugin::start("kms-1", &fixture.sockets)?;
    plugin.script(|script| script.version = b"v1".to_vec());
    let hash = fixture.request_check().await?;
    fixture.start_with(|program| program.flag("resync", "1h").flag("retry-after", "2s,5s"))?;
    let mut before = None;
    for (attempt, wait) in [(1, 2), (2, 5), (3, 5)] {
        let pod = fixture.wait_for_pod(before.as_ref()).await?;
        let created = pod.metadata.creation_timestamp.clone().map(|time| time.0);
        assert_eq!(pod.annotations()["outrigger.dev/kms-preflight-attempt"], attempt.to_string());
        if let Some(before) = &before {
            let passed = created.unwrap().duration_since(result_time(before)?).as_secs();
            // Both times have a resolution of one second.
            let least = if attempt == 2 { 2 } else { 5 };
            assert!(passed >= least - 1, "attempt {attempt} started {passed} s after the previous failure");
        }
        assert!(fixture.run_checker(&hash, &[1]).await?.status.success());
        let message = fixture
            .until_degraded_message(&format!("(attempt {attempt}; next attempt after {wait}s)"))
            .await?;
        assert!(message.contains("BadVersion"), "{message}");
        before = Some(fixture.pods().get("kms-preflight").await?);
    }
    plugin.recover()?;
    fixture.wait_for_pod(before.as_ref()).await?;
    assert!(fixture.run_checker(&hash, &[1]).await?.status.success());
    fixture.until_cleaned_up().await?;
    assert_eq!(fixture.result().await?["status"], "Succeeded");
    fixture.until_condition("Degraded", "False", "AsExpected").await?;
    Ok(())
}

/// Returns when a pod posted its result.
fn result_time(pod: &Pod) -> Result<Timestamp, crate::fixture::Error> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let found = conditions.into_iter().find(|one| one.type_ == "KMSPreflightResult");
    let time = found.and_then(|one| one.last_transition_time.clone()).map(|time| time.0);
    time.ok_or_else(|| "no result posted".into())
}
