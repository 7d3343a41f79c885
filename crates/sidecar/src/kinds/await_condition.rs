//! `await-condition`: waits for a block height or until the node has caught up, then optionally stops seid.

use std::time::Duration;

use api::sidecar_wire::TaskType;
use serde::Deserialize;

use super::{Deadline, Kind, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::node::{SeidControl, rpc};

/// Time between two status requests.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long seid may take to stop before it is killed. A seid that runs past the target height produces other blocks.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A halt height may be weeks ahead; a condition that never becomes true still needs an end.
const MAX_WAIT: Duration = Duration::from_secs(60 * 24 * 3600);

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::AwaitCondition,
    locks: &[],
    deadline: Deadline::After(MAX_WAIT),
    mostly_waits: true,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

/// `action` is a string: as in upstream, an unknown action is reported only after the condition is met.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    condition: String,
    target_height: i64,
    action: String,
}

enum Condition {
    Height(i64),
    CaughtUp,
}

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: Params = ctx.params()?;
    let condition = match params.condition.as_str() {
        "height" if params.target_height > 0 => Condition::Height(params.target_height),
        "height" => return Err(TaskError::new("targetHeight must be above 0")),
        "catchingUp" => Condition::CaughtUp,
        "" => return Err(TaskError::new("condition is required: height or catchingUp")),
        other => {
            return Err(TaskError::new(format_args!(
                "unknown condition {other:?}: use height or catchingUp"
            )));
        }
    };
    wait(&ctx, &condition).await;
    match params.action.as_str() {
        "" => Ok(None),
        "SIGTERM_SEID" => stop(ctx.node.seid()).await.map(|()| None),
        other => Err(TaskError::new(format_args!("unknown action {other:?}: use SIGTERM_SEID"))),
    }
}

async fn wait(ctx: &TaskContext, condition: &Condition) {
    let mut last_error = String::new();
    loop {
        let next_poll = tokio::time::Instant::now() + POLL_INTERVAL;
        match rpc::status(&ctx.node.settings().node_rpc, rpc::PROBE_TIMEOUT).await {
            Ok(status) => {
                last_error.clear();
                let is_met = match condition {
                    Condition::Height(height) => status.height >= *height,
                    Condition::CaughtUp => !status.catching_up && status.height > 1,
                };
                if is_met {
                    return;
                }
            }
            Err(error) => {
                let error = error.to_string();
                if error != last_error {
                    tracing::info!(id = ctx.execution.id, error, "node status request failed; waiting");
                    last_error = error;
                }
            }
        }
        tokio::time::sleep_until(next_poll).await;
    }
}

async fn stop(control: &SeidControl) -> Result<(), TaskError> {
    let seid = control.find().map_err(TaskError::new)?;
    let seid = seid.ok_or_else(|| TaskError::new("the condition was met but no seid process was found"))?;
    if seid.terminate(STOP_TIMEOUT).await.map_err(TaskError::new)? {
        return Ok(());
    }
    tracing::warn!("seid did not stop after SIGTERM; sending SIGKILL");
    match seid.kill(STOP_TIMEOUT).await.map_err(TaskError::new)? {
        true => Ok(()),
        false => Err(TaskError::new("seid is still running after SIGKILL")),
    }
}
