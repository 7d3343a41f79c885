//! `stop-seid`: stops seid with SIGTERM. Never SIGKILL: a killed validator may double-sign.

use std::time::Duration;

use api::sidecar_wire::TaskType;

use super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::node::rpc;

/// How long seid may take to flush its state and exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(90);

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::StopSeid,
    locks: &[Resource::Process],
    deadline: Deadline::After(Duration::from_secs(120)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    stop(&ctx).await.map(|()| None)
}

/// Stops seid; succeeds if it is not running.
pub(super) async fn stop(ctx: &TaskContext) -> Result<(), TaskError> {
    let control = ctx.node.seid();
    let Some(seid) = control.find().map_err(TaskError::new)? else {
        // A seid that is invisible but responds must not be reported as stopped.
        return match rpc::status(&ctx.node.settings().node_rpc, rpc::PROBE_TIMEOUT).await {
            Ok(_) => Err(TaskError::new(control.invisible_seid_message())),
            Err(_) => Ok(()),
        };
    };
    match seid.terminate(STOP_TIMEOUT).await.map_err(TaskError::new)? {
        true => Ok(()),
        false => Err(TaskError::new(format_args!(
            "seid did not stop within {} seconds and is still running",
            STOP_TIMEOUT.as_secs()
        ))),
    }
}
