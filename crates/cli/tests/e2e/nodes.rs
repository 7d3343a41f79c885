//! Nodes with real seid, applied with kubectl.

use std::time::{Duration, Instant};

use api::SeiNode;
use api::sei_node::SeiNodeStatus;
use serde_json::json;
use testbed::demo::platform::{FULL_NODE, SEID_AGAIN, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::{Context, TestResult};

use crate::ground::{self, since};

/// Keys from Secrets, genesis from the store of objects.
pub async fn a_validator_makes_blocks(cx: Context) -> TestResult {
    let nodes = SeiNodes::on(cx.platform().await?).await?;
    let begin = Instant::now();
    nodes.platform().apply_file("validator/validator.yaml")?;
    nodes.until(VALIDATOR, "it runs", is_ready).await?;
    let running = since(begin);
    nodes.height(VALIDATOR, 1).await?;
    let first = since(begin);
    let height = nodes.grows(VALIDATOR).await?;
    println!(
        "a validator: Running {running} after kubectl apply, its first block {first} after it; it is at {height}"
    );
    nodes.platform().check_alive()?;
    Ok(())
}

/// It finds its peer by labels.
pub async fn a_full_node_follows(cx: Context) -> TestResult {
    let (nodes, _turn) = ground::with_full_node(&cx).await?;
    let height = nodes.grows(FULL_NODE).await?;
    let (ours, theirs) = (nodes.rpc(FULL_NODE).await?, nodes.rpc(VALIDATOR).await?);
    assert_eq!(ours.block(height).await?, theirs.block(height).await?, "the same block {height}");
    Ok(())
}

/// Named within a minute, and the next edit is taken up although the node never got there.
pub async fn an_image_that_cannot_be_pulled_is_named_and_mended_by_the_next_edit(cx: Context) -> TestResult {
    let (nodes, _turn) = ground::with_full_node(&cx).await?;
    let missing = "outrigger.dev/testbed-seid:missing";
    let begin = Instant::now();
    nodes.edit(FULL_NODE, &json!({ "image": missing }))?;
    let named = |_: &SeiNode, status: &SeiNodeStatus| {
        let waiting = status.waiting_for.as_ref().and_then(|waiting| waiting.message.clone());
        waiting.is_some_and(|message| message.contains(missing) && message.contains("Image"))
    };
    let node = nodes.until(FULL_NODE, "the image is named", named).await?;
    assert!(begin.elapsed() < Duration::from_secs(60), "named only after {}", since(begin));
    let waiting = node.status.and_then(|status| status.waiting_for?.message).unwrap_or_default();
    println!("an image that is nowhere, named after {}: {waiting}", since(begin));
    let begin = Instant::now();
    nodes.edit(FULL_NODE, &json!({ "image": SEID_AGAIN }))?;
    let node = nodes.until(FULL_NODE, "it is mended", is_ready).await?;
    assert_eq!(node.status.and_then(|status| status.current_image).as_deref(), Some(SEID_AGAIN));
    println!("the next edit: Running after {}", since(begin));
    nodes.grows(FULL_NODE).await?;
    Ok(())
}

/// Nobody can know beforehand which addresses a pod has. Seid says so in one line, and prints its flags behind it.
pub async fn a_setting_that_seid_cannot_start_with_is_told_in_its_words_and_mended_by_the_next_edit(
    cx: Context,
) -> TestResult {
    let (nodes, _turn) = ground::with_full_node(&cx).await?;
    let (key, begin) = ("network.rpc.listen_address", Instant::now());
    nodes.edit(FULL_NODE, &json!({ "overrides": { key: "tcp://198.51.100.1:26657" } }))?;
    let told = |node: &SeiNode, status: &SeiNodeStatus| {
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
        ready.is_some_and(|ready| {
            ready.reason == "PodFailing"
                && ready.observed_generation == node.metadata.generation
                && ready
                    .message
                    .contains("Error: error starting node: failed to listen on 198.51.100.1:26657")
        })
    };
    let node = nodes.until(FULL_NODE, "seid's words are told", told).await?;
    let conditions = node.status.unwrap_or_default().conditions;
    let said = conditions.into_iter().find(|one| one.type_ == "Ready").map(|one| one.message);
    println!(
        "a setting that seid cannot start with, told after {}: {}",
        since(begin),
        said.unwrap_or_default()
    );
    let begin = Instant::now();
    nodes.edit(FULL_NODE, &json!({ "overrides": { key: null } }))?;
    nodes.until(FULL_NODE, "it is mended", is_ready).await?;
    println!("the next edit: Running after {}", since(begin));
    nodes.grows(FULL_NODE).await?;
    Ok(())
}
