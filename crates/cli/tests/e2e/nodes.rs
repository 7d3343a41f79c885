//! Nodes with a real seid.

use std::time::{Duration, Instant};

use api::SeiNode;
use api::sei_node::SeiNodeStatus;
use serde_json::json;
use testbed::demo::platform::{FULL_NODE, SEID_ALIAS, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::{Context, TestResult};

use crate::fixture::{self, since};

/// Keys come from Secrets, the genesis file from the object store.
pub async fn validator_produces_blocks(cx: Context) -> TestResult {
    let nodes = SeiNodes::new(cx.platform().await?).await?;
    let begin = Instant::now();
    nodes.platform().apply_file("validator/validator.yaml")?;
    nodes.wait_until(VALIDATOR, "validator to be ready", is_ready).await?;
    let running = since(begin);
    nodes.wait_for_height(VALIDATOR, 1).await?;
    let first = since(begin);
    let height = nodes.wait_for_new_blocks(VALIDATOR).await?;
    println!(
        "validator: Running {running} and first block {first} after kubectl apply, now at height {height}"
    );
    nodes.platform().check_alive()?;
    Ok(())
}

/// Peers are discovered by label.
pub async fn full_node_follows_chain(cx: Context) -> TestResult {
    let (nodes, _turn) = fixture::with_full_node(&cx).await?;
    let height = nodes.wait_for_new_blocks(FULL_NODE).await?;
    let (full_node, validator) = (nodes.rpc(FULL_NODE).await?, nodes.rpc(VALIDATOR).await?);
    assert_eq!(
        full_node.block_hash(height).await?,
        validator.block_hash(height).await?,
        "block {height} differs"
    );
    Ok(())
}

/// The image is reported within a minute, and the next edit is applied although the previous one never completed.
pub async fn unpullable_image_is_reported_and_recovers(cx: Context) -> TestResult {
    let (nodes, _turn) = fixture::with_full_node(&cx).await?;
    let missing = "outrigger.dev/testbed-seid:missing";
    let begin = Instant::now();
    nodes.edit(FULL_NODE, &json!({ "image": missing }))?;
    let is_reported = |_: &SeiNode, status: &SeiNodeStatus| {
        let waiting = status.waiting_for.as_ref().and_then(|waiting| waiting.message.clone());
        waiting.is_some_and(|message| message.contains(missing) && message.contains("Image"))
    };
    let node = nodes.wait_until(FULL_NODE, "missing image to be reported", is_reported).await?;
    assert!(begin.elapsed() < Duration::from_secs(60), "reported only after {}", since(begin));
    let waiting = node.status.and_then(|status| status.waiting_for?.message).unwrap_or_default();
    println!("missing image: reported after {}: {waiting}", since(begin));
    let begin = Instant::now();
    nodes.edit(FULL_NODE, &json!({ "image": SEID_ALIAS }))?;
    let node = nodes.wait_until(FULL_NODE, "full node to recover", is_ready).await?;
    assert_eq!(node.status.and_then(|status| status.current_image).as_deref(), Some(SEID_ALIAS));
    println!("next edit: Running after {}", since(begin));
    nodes.wait_for_new_blocks(FULL_NODE).await?;
    Ok(())
}

/// Pod addresses are not known in advance, so validation cannot reject this. seid prints the error in one line, followed by
/// its usage.
pub async fn seid_startup_error_is_reported_and_recovers(cx: Context) -> TestResult {
    let (nodes, _turn) = fixture::with_full_node(&cx).await?;
    let (key, begin) = ("network.rpc.listen_address", Instant::now());
    nodes.edit(FULL_NODE, &json!({ "overrides": { key: "tcp://198.51.100.1:26657" } }))?;
    let is_reported = |node: &SeiNode, status: &SeiNodeStatus| {
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
        ready.is_some_and(|ready| {
            ready.reason == "PodFailing"
                && ready.observed_generation == node.metadata.generation
                && ready
                    .message
                    .contains("Error: error starting node: failed to listen on 198.51.100.1:26657")
        })
    };
    let node = nodes.wait_until(FULL_NODE, "seid error to be reported", is_reported).await?;
    let conditions = node.status.unwrap_or_default().conditions;
    let message = conditions
        .into_iter()
        .find(|condition| condition.type_ == "Ready")
        .map(|condition| condition.message);
    println!("seid startup error: reported after {}: {}", since(begin), message.unwrap_or_default());
    let begin = Instant::now();
    nodes.edit(FULL_NODE, &json!({ "overrides": { key: null } }))?;
    nodes.wait_until(FULL_NODE, "full node to recover", is_ready).await?;
    println!("next edit: Running after {}", since(begin));
    nodes.wait_for_new_blocks(FULL_NODE).await?;
    Ok(())
}
