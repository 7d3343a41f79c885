//! `restart-seid`: stops seid and waits until it is back. Readiness is unchanged, so seid starts again at once.

use std::time::Duration;

use api::sidecar_wire::TaskType;

use super::stop_seid::stop;
use super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::node::rpc;

/// How long seid may take until its RPC responds.
const RESTART_TIMEOUT: Duration = Duration::from_secs(300);

/// Time between two status requests.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::RestartSeid,
    locks: &[Resource::Process],
    deadline: Deadline::After(Duration::from_secs(420)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    stop(&ctx).await?;
    let rpc = &ctx.node.settings().node_rpc;
    let wait_for_rpc = async {
        while rpc::status(rpc, rpc::PROBE_TIMEOUT).await.is_err() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let late = || {
        format!("seid was stopped but its RPC did not respond within {} seconds", RESTART_TIMEOUT.as_secs())
    };
    tokio::time::timeout(RESTART_TIMEOUT, wait_for_rpc).await.map_err(|_| TaskError::new(late()))?;
    Ok(None)
}
