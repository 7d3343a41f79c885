//! The configuration changes while it is checked.

use kube::ResourceExt;
use serde_json::{Value, json};
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::{Context, TestResult};

use crate::ground::{Ground, kms};

/// T-F3; row 3c, before 3a: what became of the old one says nothing of the new one.
pub async fn a_configuration_that_changes_is_checked_anew_in_every_state(cx: Context) -> TestResult {
    let mut ground = Ground::new(&cx, "KubeAPIServer").await?;
    let plugin = KmsPlugin::start("kms-1", &ground.folder)?;
    plugin.script(|script| script.version = b"v1".to_vec());
    let mut hash = ground.ask().await?;
    ground.start()?;
    let mut pod = ground.pod(None).await?;
    let ended = json!({ "name": "kms-preflight-check", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } });
    let states = [
        json!({ "phase": "Pending" }),
        json!({ "phase": "Running" }),
        json!({ "phase": "Failed", "containerStatuses": [ended] }),
        json!({ "phase": "Succeeded" }),
    ];
    for (place, state) in states.into_iter().enumerate() {
        ground.becomes(state).await?;
        // Credentials count as the configuration does.
        if place % 2 == 0 {
            ground.configure(kms(&format!("https://vault-{place}.example.com"))).await?;
        } else {
            ground.credentials(&format!("secret-{place}")).await?;
        }
        hash = ground.ask().await?;
        let next = ground.pod(Some(&pod)).await?;
        let annotation = "encryption.apiserver.operator.openshift.io/kms-preflight-config-hash";
        assert_eq!(next.annotations().get(annotation), Some(&hash));
        assert_eq!(
            next.annotations().get("outrigger.dev/kms-preflight-attempt").map(String::as_str),
            Some("1")
        );
        pod = next;
    }
    // A result of before is not one of now: the checker that ends late posts the hash that it checked.
    plugin.heal()?;
    ground.configure(kms("https://last.example.com")).await?;
    let last = ground.hash().await?;
    assert!(ground.check(&hash, &[1]).await.is_ok());
    ground.observe(json!(last)).await?;
    let next = ground.pod(Some(&pod)).await?;
    assert_ne!(ground.result().await?["configHash"], json!(last));
    assert!(ground.check(&last, &[1]).await?.status.success());
    ground.gone().await?;
    assert_eq!(ground.result().await?["configHash"], json!(last));
    assert_ne!(next.uid(), pod.uid());
    Ok(())
}

/// Row 1.
pub async fn what_is_no_longer_asked_for_is_removed(cx: Context) -> TestResult {
    let mut ground = Ground::new(&cx, "KubeAPIServer").await?;
    ground.ask().await?;
    ground.start()?;
    let first = ground.pod(None).await?;
    ground.configure(json!({ "type": "aescbc" })).await?;
    ground.gone().await?;
    ground.told("Progressing", "False", "AsExpected").await?;
    ground.configure(kms("https://vault.example.com:8200")).await?;
    ground.pod(Some(&first)).await?;
    ground.observe(Value::Null).await?;
    ground.gone().await?;
    // A hash that is not that of the configuration: who asks will see it, and ask again.
    ground.observe(json!("AAAAAA==")).await?;
    ground.told("Degraded", "False", "AsExpected").await?;
    assert!(ground.pods().get_opt("kms-preflight").await?.is_none());
    Ok(())
}

/// Row 2b, on error.
pub async fn a_configuration_that_refers_to_nothing_says_so_and_recovers(cx: Context) -> TestResult {
    let mut ground = Ground::new(&cx, "KubeAPIServer").await?;
    ground.ask().await?;
    ground.remove_credentials().await?;
    // What a configuration refers to is not watched: nobody may list Secrets.
    ground.start_with(|program| program.flag("resync", "500ms"))?;
    let message = ground.told("Degraded", "True", "Error").await?;
    assert_eq!(message, "Secret vault-approle not found: create it");
    ground.credentials("secret-456").await?;
    ground.pod(None).await?;
    ground.told("Degraded", "False", "AsExpected").await?;
    Ok(())
}
