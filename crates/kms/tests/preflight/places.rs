//! A check on each node of the control plane: the way to the KMS is another from each.

use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::{Context, TestResult};

use crate::ground::{Error, Ground};

/// A plugin on a node.
fn plugin_on(ground: &Ground, node: &str) -> Result<(KmsPlugin, std::path::PathBuf), Error> {
    let folder = ground.folder.join(node);
    std::fs::create_dir_all(&folder)?;
    Ok((KmsPlugin::start("kms-1", &folder)?, folder))
}

/// 4.6: on every node, and all of them count.
pub async fn every_node_of_the_control_plane_is_checked_and_one_that_failed_is_named(
    cx: Context,
) -> TestResult {
    let mut ground = Ground::new(&cx, "KubeAPIServer").await?;
    ground.nodes(&["master-0", "master-1"]).await?;
    let (_well, at_first) = plugin_on(&ground, "master-0")?;
    let (sick, at_second) = plugin_on(&ground, "master-1")?;
    sick.script(|script| script.healthz = b"sealed".to_vec());
    let hash = ground.ask().await?;
    ground.start()?;
    let (first, second) = ("kms-preflight-master-0", "kms-preflight-master-1");
    let pod = serde_json::to_value(ground.pod_named(first, None).await?)?;
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let field = json!({ "key": "metadata.name", "operator": "In", "values": ["master-0"] });
    assert_eq!(terms["nodeSelectorTerms"], json!([{ "matchFields": [field] }]));
    let before = ground.pod_named(second, None).await?;
    assert!(ground.check_in(first, &at_first, &hash, &[1]).await?.status.success());
    assert!(ground.result().await?.is_null(), "one of two says nothing of the other");
    assert!(ground.check_in(second, &at_second, &hash, &[1]).await?.status.success());
    let message = ground.told("Degraded", "True", "PreflightCheckFailed").await?;
    assert!(message.starts_with("node master-1: ") && message.contains("NotOk: sealed"), "{message}");
    assert!(!message.contains("master-0"), "{message}");
    assert_eq!(ground.result().await?["status"], "Failed");
    sick.heal()?;
    ground.retry("healed").await?;
    ground.pod_named(second, Some(&before)).await?;
    for (name, folder) in [(first, &at_first), (second, &at_second)] {
        ground.pod_named(name, None).await?;
        let output = ground.check_in(name, folder, &hash, &[1]).await?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    ground.gone().await?;
    assert_eq!(ground.result().await?["status"], "Succeeded");
    Ok(())
}

/// What the others find says nothing of the node whose pod is gone.
pub async fn a_check_that_lost_a_pod_begins_anew(cx: Context) -> TestResult {
    let mut ground = Ground::new(&cx, "KubeAPIServer").await?;
    ground.nodes(&["a", "b"]).await?;
    let _plugin = KmsPlugin::start("kms-1", &ground.folder)?;
    let hash = ground.ask().await?;
    ground.start()?;
    let before = ground.pod_named("kms-preflight-a", None).await?;
    ground.pod_named("kms-preflight-b", None).await?;
    ground.check_in("kms-preflight-a", &ground.folder, &hash, &[1]).await?;
    ground.pods().delete("kms-preflight-b", &DeleteParams::default().grace_period(0)).await?;
    let again = ground.pod_named("kms-preflight-a", Some(&before)).await?;
    assert_eq!(again.annotations()["outrigger.dev/kms-preflight-attempt"], "1", "it did not fail");
    for pod in ["kms-preflight-a", "kms-preflight-b"] {
        ground.pod_named(pod, None).await?;
        assert!(ground.check_in(pod, &ground.folder, &hash, &[1]).await?.status.success());
    }
    ground.gone().await?;
    assert_eq!(ground.result().await?["status"], "Succeeded");
    Ok(())
}
