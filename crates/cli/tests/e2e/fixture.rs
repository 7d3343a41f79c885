//! What tests of everything stand on: the nodes of `examples`, begun by whoever needs them first.

use std::time::Instant;

use api::SeiNode;
use testbed::demo::platform::{FULL_NODE, PUBLISHER, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::{Context, Error};
use tokio::sync::{Mutex, MutexGuard};

/// Tests that edit the full node take turns.
static FULL_NODE_TURN: Mutex<()> = Mutex::const_new(());

/// With the validator running.
pub async fn with_validator(cx: &Context) -> Result<SeiNodes<'_>, Error> {
    let nodes = SeiNodes::on(cx.platform().await?).await?;
    nodes.platform().apply_file("validator/validator.yaml")?;
    nodes.until(VALIDATOR, "it runs", is_ready).await?;
    Ok(nodes)
}

/// The same with the full node that follows it, and nobody else who edits it.
pub async fn with_full_node(cx: &Context) -> Result<(SeiNodes<'_>, MutexGuard<'static, ()>), Error> {
    let nodes = with_validator(cx).await?;
    let turn = FULL_NODE_TURN.lock().await;
    // As the test before has left it, if there was one: to apply it anew could replace its pod.
    let is_new = nodes.api::<SeiNode>().get_opt(FULL_NODE).await?.is_none();
    if is_new {
        nodes.platform().apply_file("full-node/full-node.yaml")?;
    }
    let begin = Instant::now();
    nodes.until(FULL_NODE, "it runs", is_ready).await?;
    if is_new {
        println!("a full node: Running {} after kubectl apply", since(begin));
    }
    Ok((nodes, turn))
}

/// With the node that makes snapshots, and the account that may have them uploaded.
pub async fn with_publisher(cx: &Context) -> Result<SeiNodes<'_>, Error> {
    let nodes = with_validator(cx).await?;
    nodes.platform().apply_file("access/uploader.yaml")?;
    nodes.platform().apply_file("snapshots/publisher.yaml")?;
    nodes.until(PUBLISHER, "it runs", is_ready).await?;
    Ok(nodes)
}

/// Seconds since a moment, for people.
pub fn since(begin: Instant) -> String {
    format!("{:.1} s", begin.elapsed().as_secs_f64())
}
