//! Reconciles one node: observe, decide, act, record.

use std::sync::Arc;
use std::time::Duration;

use api::SeiNode;
use runtime::Key;
use runtime::write::Writer;

use super::{Controller, Error, decide, observe, record};

/// Rounds of one reconcile, each with its own status write. A plan that was just stored starts in the same reconcile.
const MAX_ROUNDS: usize = 8;

/// Requeue delay of a node whose stored state is newer than the one that was read.
pub(super) const STALE_REQUEUE: Duration = Duration::from_millis(100);

/// What follows a round.
pub(super) enum Next {
    /// Another round, with the node as it is stored now.
    Continue(Arc<SeiNode>),
    /// Wait for the next change, or until the delay has passed.
    Requeue(Option<Duration>),
    /// The same, with no active plan: the node has converged.
    Converged(Option<Duration>),
}

/// Reconciles a node until it waits for something. Returns the requeue delay. Failures are counted.
pub(super) async fn reconcile(
    controller: Arc<Controller>,
    writer: Writer,
    key: Key,
) -> Result<Option<Duration>, Error> {
    let result = run_rounds(&controller, &writer, &key).await;
    if result.is_err() {
        controller.metrics.record_reconcile_error(&key.namespace);
    }
    result
}

async fn run_rounds(controller: &Controller, writer: &Writer, key: &Key) -> Result<Option<Duration>, Error> {
    let mut stored = controller.stores.nodes.get(&controller.client, key).await?;
    if let Some(deleted) = controller.deletions.take(key) {
        record::record_deletion(controller, key, &deleted).await?;
    }
    for _ in 0..MAX_ROUNDS {
        let Some(node) = stored else {
            controller.forget(key).await;
            return Ok(None);
        };
        match run_round(controller, writer, key, &node).await? {
            Next::Continue(node) => stored = Some(node),
            Next::Requeue(after) => return Ok(after),
            Next::Converged(after) => {
                controller.stores.compress(&node);
                return Ok(after);
            }
        }
    }
    Ok(Some(STALE_REQUEUE))
}

async fn run_round(
    controller: &Controller,
    writer: &Writer,
    key: &Key,
    node: &Arc<SeiNode>,
) -> Result<Next, Error> {
    let mut observed = observe::observe_objects(controller, key, node).await?;
    let mut decision = decide::decide_and_act(controller, writer, key, node, &mut observed).await?;
    if decision.remove_finalizer {
        if let Some(next) = record::remove_finalizer(writer, node, &mut observed).await? {
            return Ok(next);
        }
        // Reports the refusal in the status.
        decision = decide::decide_and_act(controller, writer, key, node, &mut observed).await?;
    }
    let next = record::record(controller, writer, node, decision).await?;
    // An error, so that the queue backs off: the cause is outside of the node, and no event announces that it is gone.
    match observed.write_failures.iter().next() {
        Some((kind, failure)) => Err(Error::Refused { kind, reason: failure.message().to_owned() }),
        None => Ok(next),
    }
}
