//! What can become of a pod before it has a result.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::ground::Ground;

fn container(name: &str, state: Value) -> Value {
    json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state })
}

/// T-F1, rows 3a and 3b, with plugins looked at first.
pub async fn what_keeps_a_pod_from_a_result_is_told(cx: Context) -> TestResult {
    let mut ground = Ground::new(&cx, "KubeAPIServer").await?;
    ground.ask().await?;
    ground.start()?;
    ground.pod(None).await?;
    let waits = |reason: &str| json!({ "waiting": { "reason": reason, "message": "as it is" } });
    let ended = |code: i32, reason: &str| json!({ "terminated": { "exitCode": code, "reason": reason, "message": "oops\n" } });
    let early = Timestamp::now().checked_sub(std::time::Duration::from_secs(200))?.to_string();
    ground
        .becomes(json!({
            "phase": "Pending",
            "startTime": early,
            "initContainerStatuses": [container("vault-kms-plugin-1", waits("ImagePullBackOff"))],
            "containerStatuses": [container("kms-preflight-check", waits("PodInitializing"))],
        }))
        .await?;
    let message = ground.told("Degraded", "True", "ImagePullBackOff").await?;
    assert_eq!(message, "container vault-kms-plugin-1 is waiting: as it is");
    ground.told("Progressing", "True", "RunningPreflightCheck").await?;
    ground
        .becomes(json!({
            "phase": "Failed",
            "initContainerStatuses": [container("vault-kms-plugin-1", ended(1, "Error"))],
            "containerStatuses": [container("kms-preflight-check", ended(137, "OOMKilled"))],
        }))
        .await?;
    let message = ground.told("Degraded", "True", "Error").await?;
    assert!(
        message.starts_with("container vault-kms-plugin-1 exited with code 1: oops (attempt 1;"),
        "{message}"
    );
    ground.told("Progressing", "False", "AsExpected").await?;
    assert_eq!(ground.result().await?, Value::Null, "nothing was proved");
    ground
        .becomes(json!({ "phase": "Succeeded", "initContainerStatuses": null, "containerStatuses": null }))
        .await?;
    ground.told("Degraded", "True", "PodCompletedWithoutResult").await?;
    Ok(())
}
