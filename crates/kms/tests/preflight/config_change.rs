//! The configuration changes during a check.

use kube::ResourceExt;
use serde_json::{Value, json};
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, vault_config};

/// T-F3: a changed configuration is checked again, whatever the state of the pod for the old one.
pub async fn changed_config_restarts_check_in_every_state(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "KubeAPIServer").await?;
    let plugin = FakeKmsPlugin::start("kms-1", &fixture.sockets)?;
    plugin.script(|script| script.version = b"v1".to_vec());
    let mut hash = fixture.request_check().await?;
    fixture.start()?;
    let mut pod = fixture.wait_for_pod(None).await?;
    let ended = json!({ "name": "kms-preflight-check", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } });
    let states = [
        json!({ "phase": "Pending" }),
        json!({ "phase": "Running" }),
        json!({ "phase": "Failed", "containerStatuses": [ended] }),
        json!({ "phase": "Succeeded" }),
    ];
    for (index, state) in states.into_iter().enumerate() {
        fixture.set_pod_status(state).await?;
        // Credentials are part of the configuration.
        if index % 2 == 0 {
            fixture.configure(vault_config(&format!("https://vault-{index}.example.com"))).await?;
        } else {
            fixture.set_credentials(&format!("secret-{index}")).await?;
        }
        hash = fixture.request_check().await?;
        let next = fixture.wait_for_pod(Some(&pod)).await?;
        let annotation = "encryption.apiserver.operator.openshift.io/kms-preflight-config-hash";
        assert_eq!(next.annotations().get(annotation), Some(&hash));
        assert_eq!(
            next.annotations().get("outrigger.dev/kms-preflight-attempt").map(String::as_str),
            Some("1")
        );
        pod = next;
    }
    // A late checker posts the hash of the old configuration, which must not become the result of the new one.
    plugin.recover()?;
    fixture.configure(vault_config("https://last.example.com")).await?;
    let last = fixture.config_hash().await?;
    assert!(fixture.run_checker(&hash, &[1]).await.is_ok());
    fixture.set_observed_hash(json!(last)).await?;
    let next = fixture.wait_for_pod(Some(&pod)).await?;
    assert_ne!(fixture.result().await?["configHash"], json!(last));
    assert!(fixture.run_checker(&last, &[1]).await?.status.success());
    fixture.until_cleaned_up().await?;
    assert_eq!(fixture.result().await?["configHash"], json!(last));
    assert_ne!(next.uid(), pod.uid());
    Ok(())
}

/// The request is withdrawn, or encryption no longer uses a KMS.
pub async fn check_is_removed_when_not_requested(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "KubeAPIServer").await?;
    fixture.request_check().await?;
    fixture.start()?;
    let first = fixture.wait_for_pod(None).await?;
    fixture.configure(json!({ "type": "aescbc" })).await?;
    fixture.until_cleaned_up().await?;
    fixture.until_condition("Progressing", "False", "AsExpected").await?;
    fixture.configure(vault_config("https://vault.example.com:8200")).await?;
    fixture.wait_for_pod(Some(&first)).await?;
    fixture.set_observed_hash(Value::Null).await?;
    fixture.until_cleaned_up().await?;
    // A hash of another configuration: the requester will observe the current one and request again.
    fixture.set_observed_hash(json!("AAAAAA==")).await?;
    fixture.until_condition("Degraded", "False", "AsExpected").await?;
    assert!(fixture.pods().get_opt("kms-preflight").await?.is_none());
    Ok(())
}

/// The configuration refers to a Secret that does not exist.
pub async fn missing_reference_is_degraded_until_created(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "KubeAPIServer").await?;
    fixture.request_check().await?;
    fixture.remove_credentials().await?;
    // Referenced objects are not watched: the controller may not list Secrets.
    fixture.start_with(|program| program.flag("resync", "500ms"))?;
    let message = fixture.until_condition("Degraded", "True", "Error").await?;
    assert_eq!(message, "Secret vault-approle not found: create it");
    fixture.set_credentials("secret-456").await?;
    fixture.wait_for_pod(None).await?;
    fixture.until_condition("Degraded", "False", "AsExpected").await?;
    Ok(())
}
