//! Recovery of a chain with one validator from a defect of seid.
//!
//! seid stores that it signed a vote before it writes the vote to its write-ahead log. If it terminates between the two, it
//! replays the proposal without the time at which it was received, takes it for late, and would have to sign the opposite
//! vote, which it refuses. In a chain with several validators the others continue. A single validator halts the chain
//! until its signing state is reset, which is safe only because no other validator has seen the vote.

use std::time::Duration;

use api::names::{container, object};
use serde_json::{Value, json};

use crate::cluster::kubectl;
use crate::cluster::node::kill_container_and_edit;
use crate::demo::sei_nodes::SeiNodes;
use crate::error::Result;

/// What the validator signed last, in the container of seid.
const SIGNING_STATE: &str = "/.sei/data/priv_validator_state.json";

/// A chain with two blocks per second has halted after this time without one.
const HALTED_AFTER: Duration = Duration::from_secs(20);

/// What seid logs when it must not sign a vote.
const REFUSAL: &str = "failed signing vote";

/// Waits for two new blocks of a restarted validator. If seid refuses to sign, resets its signing state and returns true.
pub async fn wait_for_blocks_of_validator(nodes: &SeiNodes<'_>, node: &str) -> Result<bool> {
    let height = nodes.wait_for_height(node, 1).await?;
    let blocks = || nodes.wait_for_height(node, height + 2);
    if let Ok(result) = tokio::time::timeout(HALTED_AFTER, blocks()).await {
        return result.map(|_| false);
    }
    let is_reset = refuses_to_sign(nodes, node)?;
    if is_reset {
        let latest = nodes.wait_for_height(node, 1).await?;
        println!("{node} halted at block {latest}: seid refuses to sign; resetting its signing state");
        restart_with_signing_state(nodes, node, |state| {
            *state = json!({ "height": (latest + 1).to_string(), "round": 0, "step": 0 });
        })
        .await?;
    }
    blocks().await.map(|_| is_reset)
}

/// Restarts seid as if it had signed a prevote of the next height that is not in its write-ahead log.
pub async fn restart_with_unlogged_vote(nodes: &SeiNodes<'_>, node: &str) -> Result<()> {
    let latest = nodes.wait_for_height(node, 1).await?;
    restart_with_signing_state(nodes, node, |state| {
        // seid may have made a block since then.
        let signed = state["height"].as_str().and_then(|text| text.parse().ok()).unwrap_or(latest);
        state["height"] = json!((signed + 1).to_string());
        state["round"] = json!(0);
        state["step"] = json!(2);
    })
    .await
}

async fn restart_with_signing_state(
    nodes: &SeiNodes<'_>,
    node: &str,
    edit: impl FnOnce(&mut Value),
) -> Result<()> {
    let id = nodes.seid_container(node).await?;
    kill_container_and_edit(&id, SIGNING_STATE, |text| {
        let mut state = serde_json::from_str(text)?;
        edit(&mut state);
        Ok(state.to_string())
    })
}

/// Returns whether the running seid logged that it must not sign a vote.
fn refuses_to_sign(nodes: &SeiNodes<'_>, node: &str) -> Result<bool> {
    let pod = object::pod(node);
    let args = ["logs", &pod, "--namespace", nodes.namespace(), "--container", container::SEID];
    Ok(kubectl::run(nodes.plane(), &args, None)?.contains(REFUSAL))
}
