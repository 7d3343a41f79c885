//! Snapshot upload and restore with a real seid.

use std::time::Instant;

use serde_json::json;
use testbed::cluster::kubectl;
use testbed::demo::platform::{PUBLISHER, RESTORED, VALIDATOR, manifest};
use testbed::demo::sei_nodes::is_ready;
use testbed::demo::sidecar_client::SidecarClient;
use testbed::{Context, TestResult};

use crate::fixture::{self, since};

/// Blocks that the bootstrap Job syncs after the snapshot.
const BLOCKS_AFTER_SNAPSHOT: u64 = 10;

/// The bootstrap Job restores the snapshot, then the node starts.
pub async fn node_restores_uploaded_snapshot(cx: Context) -> TestResult {
    let nodes = fixture::with_publisher(&cx).await?;
    // The second latest snapshot is uploaded, because the latest may still be incomplete.
    nodes.wait_for_height(PUBLISHER, 45).await?;
    let begin = Instant::now();
    let uploader = SidecarClient::service_account(&nodes, "uploader", PUBLISHER)?;
    let uploaded = uploader.run_task(&nodes, PUBLISHER, "snapshot-upload-once", &json!({})).await?;
    let height =
        uploaded["height"].as_u64().ok_or_else(|| format!("no snapshot was uploaded: {uploaded}"))?;
    println!("snapshot at height {height}: uploaded in {}", since(begin));
    let text = manifest("snapshots/restored.yaml")?;
    let restored =
        text.replace("targetHeight: 1000", &format!("targetHeight: {}", height + BLOCKS_AFTER_SNAPSHOT));
    assert_ne!(text, restored, "the example has no targetHeight");
    let begin = Instant::now();
    kubectl::apply(nodes.plane(), &restored)?;
    nodes.wait_until(RESTORED, "restored node to be ready", is_ready).await?;
    let running = since(begin);
    let now = nodes.wait_for_new_blocks(RESTORED).await?;
    println!("restored node: Running {running} after kubectl apply, at height {now} after {}", since(begin));
    let rpc = nodes.rpc(RESTORED).await?;
    assert_eq!(
        rpc.block_hash(now).await?,
        nodes.rpc(VALIDATOR).await?.block_hash(now).await?,
        "block {now} differs"
    );
    let earliest = rpc.earliest_height().await?;
    assert!(earliest >= height, "earliest block is {earliest}, below the snapshot at {height}");
    Ok(())
}
