//! Shared fixture: the nodes of `examples`, created by the first test that needs them.

use std::time::Instant;

use api::SeiNode;
use testbed::demo::platform::{FULL_NODE, PUBLISHER, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::{Context, Error};
use tokio::sync::{Mutex, MutexGuard};

/// Serializes tests that edit the full node.
static FULL_NODE_LOCK: Mutex<()> = Mutex::const_new(());

/// Creates the validator and waits until it is ready.
pub async fn with_validator(cx: &Context) -> Result<SeiNodes<'_>, Error> {
    let nodes = SeiNodes::new(cx.platform().await?).await?;
    nodes.platform().apply_file("validator/validator.yaml")?;
    nodes.wait_until(VALIDATOR, "node to be ready", is_ready).await?;
    Ok(nodes)
}

/// Also creates the full node. The guard grants exclusive access to it.
pub async fn with_full_node(cx: &Context) -> Result<(SeiNodes<'_>, MutexGuard<'static, ()>), Error> {
    let nodes = with_validator(cx).await?;
    let guard = FULL_NODE_LOCK.lock().await;
    // Applying it again could replace the pod that the previous test left.
    let is_new = nodes.api::<SeiNode>().get_opt(FULL_NODE).await?.is_none();
    if is_new {
        nodes.platform().apply_file("full-node/full-node.yaml")?;
    }
    let begin = Instant::now();
    nodes.wait_until(FULL_NODE, "node to be ready", is_ready).await?;
    if is_new {
        println!("full node: Running {} after kubectl apply", since(begin));
    }
    Ok((nodes, guard))
}

/// Also creates the node that publishes snapshots and the service account that may upload them.
pub async fn with_publisher(cx: &Context) -> Result<SeiNodes<'_>, Error> {
    let nodes = with_validator(cx).await?;
    nodes.platform().apply_file("access/uploader.yaml")?;
    nodes.platform().apply_file("snapshots/publisher.yaml")?;
    nodes.wait_until(PUBLISHER, "node to be ready", is_ready).await?;
    Ok(nodes)
}

/// Formats the elapsed seconds.
pub fn since(begin: Instant) -> String {
    format!("{:.1} s", begin.elapsed().as_secs_f64())
}
