//! Failures of check pods before they have a result.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::fixture::Fixture;

fn container(name: &str, state: Value) -> Value {
    json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state })
}

/// T-F1: the pod waits, fails or ends without a result. Plugin containers are reported first.
pub async fn pod_failure_is_reported_in_degraded(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "KubeAPIServer").await?;
    fixture.request_check().await?;
    fixture.start()?;
    fixture.wait_for_pod(None).await?;
    let waiting = |reason: &str| json!({ "waiting": { "reason": reason, "message": "as it is" } });
    let terminated = |code: i32, reason: &str| json!({ "terminated": { "exitCode": code, "reason": reason, "message": "oops\n" } });
    let early = Timestamp::now().checked_sub(std::time::Duration::from_secs(200))?.to_string();
    fixture
        .set_pod_status(json!({
            "phase": "Pending",
            "startTime": early,
            "initContainerStatuses": [container("vault-kms-plugin-1", waiting("ImagePullBackOff"))],
            "containerStatuses": [container("kms-preflight-check", waiting("PodInitializing"))],
        }))
        .await?;
    let message = fixture.until_condition("Degraded", "True", "ImagePullBackOff").await?;
    assert_eq!(message, "container vault-kms-plugin-1 is waiting: as it is");
    fixture.until_condition("Progressing", "True", "RunningPreflightCheck").await?;
    fixture
        .set_pod_status(json!({
            "phase": "Failed",
            "initContainerStatuses": [container("vault-kms-plugin-1", terminated(1, "Error"))],
            "containerStatuses": [container("kms-preflight-check", terminated(137, "OOMKilled"))],
        }))
        .await?;
    let message = fixture.until_condition("Degraded", "True", "Error").await?;
    assert!(
        message.starts_with("container vault-kms-plugin-1 exited with code 1: oops (attempt 1;"),
        "{message}"
    );
    fixture.until_condition("Progressing", "False", "AsExpected").await?;
    assert_eq!(fixture.result().await?, Value::Null, "no result was stored");
    fixture
        .set_pod_status(
            json!({ "phase": "Succeeded", "initContainerStatuses": null, "containerStatuses": null }),
        )
        .await?;
    fixture.until_condition("Degraded", "True", "PodCompletedWithoutResult").await?;
    Ok(())
}
