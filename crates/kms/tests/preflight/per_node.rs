//! Checks on every control plane node: the network path to the KMS may differ between nodes.

use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::{Context, TestResult};

use crate::fixture::{Error, Fixture};

/// Starts the plugin of a node.
fn plugin_on(fixture: &Fixture, node: &str) -> Result<(FakeKmsPlugin, std::path::PathBuf), Error> {
    let dir = fixture.sockets.join(node);
    std::fs::create_dir_all(&dir)?;
    Ok((FakeKmsPlugin::start("kms-1", &dir)?, dir))
}

/// The check succeeds only if it succeeds on every node.
pub async fn check_fails_if_one_node_fails(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "KubeAPIServer").await?;
    fixture.create_nodes(&["master-0", "master-1"]).await?;
    let (_healthy, first_dir) = plugin_on(&fixture, "master-0")?;
    let (unhealthy, second_dir) = plugin_on(&fixture, "master-1")?;
    unhealthy.script(|script| script.healthz = b"sealed".to_vec());
    let hash = fixture.request_check().await?;
    fixture.start()?;
    let (first, second) = ("kms-preflight-master-0", "kms-preflight-master-1");
    let pod = serde_json::to_value(fixture.wait_for_pod_named(first, None).await?)?;
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let field = json!({ "key": "metadata.name", "operator": "In", "values": ["master-0"] });
    assert_eq!(terms["nodeSelectorTerms"], json!([{ "matchFields": [field] }]));
    let before = fixture.wait_for_pod_named(second, None).await?;
    assert!(fixture.run_checker_in(first, &first_dir, &hash, &[1]).await?.status.success());
    assert!(fixture.result().await?.is_null(), "no result before both nodes are checked");
    assert!(fixture.run_checker_in(second, &second_dir, &hash, &[1]).await?.status.success());
    let message = fixture.until_condition("Degraded", "True", "PreflightCheckFailed").await?;
    assert!(message.starts_with("node master-1: ") && message.contains("NotOk: sealed"), "{message}");
    assert!(!message.contains("master-0"), "{message}");
    assert_eq!(fixture.result().await?["status"], "Failed");
    unhealthy.recover()?;
    fixture.retry("healed").await?;
    fixture.wait_for_pod_named(second, Some(&before)).await?;
    for (name, dir) in [(first, &first_dir), (second, &second_dir)] {
        fixture.wait_for_pod_named(name, None).await?;
        let output = fixture.run_checker_in(name, dir, &hash, &[1]).await?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    fixture.until_cleaned_up().await?;
    assert_eq!(fixture.result().await?["status"], "Succeeded");
    Ok(())
}

/// Results of other nodes do not cover the node of a deleted pod.
pub async fn check_restarts_if_a_pod_is_deleted(cx: Context) -> TestResult {
    let mut fixture = Fixture::new(&cx, "KubeAPIServer").await?;
    fixture.create_nodes(&["a", "b"]).await?;
    let _plugin = FakeKmsPlugin::start("kms-1", &fixture.sockets)?;
    let hash = fixture.request_check().await?;
    fixture.start()?;
    let before = fixture.wait_for_pod_named("kms-preflight-a", None).await?;
    fixture.wait_for_pod_named("kms-preflight-b", None).await?;
    fixture.run_checker_in("kms-preflight-a", &fixture.sockets, &hash, &[1]).await?;
    fixture.pods().delete("kms-preflight-b", &DeleteParams::default().grace_period(0)).await?;
    let again = fixture.wait_for_pod_named("kms-preflight-a", Some(&before)).await?;
    assert_eq!(again.annotations()["outrigger.dev/kms-preflight-attempt"], "1", "a restart is not a retry");
    for pod in ["kms-preflight-a", "kms-preflight-b"] {
        fixture.wait_for_pod_named(pod, None).await?;
        assert!(fixture.run_checker_in(pod, &fixture.sockets, &hash, &[1]).await?.status.success());
    }
    fixture.until_cleaned_up().await?;
    assert_eq!(fixture.result().await?["status"], "Succeeded");
    Ok(())
}
