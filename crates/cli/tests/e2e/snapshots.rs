//! A snapshot that a real seid made, and a node that begins with it.

use std::time::Instant;

use serde_json::json;
use testbed::cluster::kubectl;
use testbed::demo::caller::Caller;
use testbed::demo::platform::{PUBLISHER, RESTORED, VALIDATOR, manifest};
use testbed::demo::sei_nodes::is_ready;
use testbed::{Context, TestResult};

use crate::ground::{self, since};

/// How far the Job goes on from the snapshot.
const FURTHER: u64 = 10;

/// The Job, then the node.
pub async fn a_node_begins_with_a_snapshot_that_another_has_uploaded(cx: Context) -> TestResult {
    let nodes = ground::with_publisher(&cx).await?;
    // The newest but one is uploaded: the newest may still be written.
    nodes.height(PUBLISHER, 45).await?;
    let begin = Instant::now();
    let uploader = Caller::account(&nodes, "uploader")?;
    let uploaded = uploader.have_done(&nodes, PUBLISHER, "snapshot-upload-once", &json!({})).await?;
    let height = uploaded["height"].as_u64().ok_or_else(|| format!("nothing was uploaded: {uploaded}"))?;
    println!("a snapshot of block {height} was uploaded in {}", since(begin));
    let text = manifest("snapshots/restored.yaml")?;
    let restored = text.replace("targetHeight: 1000", &format!("targetHeight: {}", height + FURTHER));
    assert_ne!(text, restored, "the example names a height");
    let begin = Instant::now();
    kubectl::apply(nodes.plane(), &restored)?;
    nodes.until(RESTORED, "it runs", is_ready).await?;
    let running = since(begin);
    let now = nodes.grows(RESTORED).await?;
    println!(
        "a node from a snapshot: Running {running} after kubectl apply, at {now} {} after it",
        since(begin)
    );
    let rpc = nodes.rpc(RESTORED).await?;
    assert_eq!(rpc.block(now).await?, nodes.rpc(VALIDATOR).await?.block(now).await?, "the same block {now}");
    let earliest = rpc.earliest_height().await?;
    assert!(earliest >= height, "its blocks begin at {earliest}, and the snapshot is of {height}");
    Ok(())
}
