//! `await-condition`: waits for a height, or until the node has caught up; then, if asked to, stops seid.

use std::time::Duration;

use api::sidecar_wire::TaskType;
use serde::Deserialize;

use super::{Doing, Failure, Kind, Limit, Outcome, Work};
use crate::node::{process, rpc};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long seid may take to stop at the height before it is killed: after it, blocks would differ.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// A halt may be weeks ahead; a wait for something that never comes must end nevertheless.
const LONGEST: Duration = Duration::from_secs(60 * 24 * 3600);

pub(super) const KIND: Kind = Kind {
    task: TaskType::AwaitCondition,
    changes: &[],
    limit: Limit::Within(LONGEST),
    waits: true,
    run: |work| -> Doing { Box::pin(run(work)) },
};

/// As text: an unknown action is told when the condition was met, as upstream does.
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

async fn run(work: Work) -> Outcome {
    let params: Params = work.params()?;
    let condition = match params.condition.as_str() {
        "height" if params.target_height > 0 => Condition::Height(params.target_height),
        "height" => return Err(Failure::new("targetHeight must be above 0")),
        "catchingUp" => Condition::CaughtUp,
        "" => return Err(Failure::new("condition is required: height or catchingUp")),
        other => {
            return Err(Failure::new(format_args!("unknown condition {other:?}: use height or catchingUp")));
        }
    };
    wait(&work, &condition).await;
    match params.action.as_str() {
        "" => Ok(None),
        "SIGTERM_SEID" => stop().await.map(|()| None),
        other => Err(Failure::new(format_args!("unknown action {other:?}: use SIGTERM_SEID"))),
    }
}

async fn wait(work: &Work, condition: &Condition) {
    let mut last_error = String::new();
    loop {
        let look = tokio::time::Instant::now() + LOOK_EVERY;
        match rpc::status(&work.node.settings().node_rpc, rpc::QUICK).await {
            Ok(status) => {
                last_error.clear();
                let met = match condition {
                    Condition::Height(height) => status.height >= *height,
                    Condition::CaughtUp => !status.catching_up && status.height > 1,
                };
                if met {
                    return;
                }
            }
            Err(error) => {
                let error = error.to_string();
                if error != last_error {
                    tracing::info!(id = work.execution.id, error, "the node does not say how it is: waiting");
                    last_error = error;
                }
            }
        }
        tokio::time::sleep_until(look).await;
    }
}

async fn stop() -> Result<(), Failure> {
    let pid = process::find().map_err(Failure::new)?;
    let pid = pid.ok_or_else(|| Failure::new("the condition was met, and no seid process was found"))?;
    if process::terminate(pid, STOPS_WITHIN).await.map_err(Failure::new)? {
        return Ok(());
    }
    tracing::warn!("seid does not stop: killing it");
    match process::kill(pid, STOPS_WITHIN).await.map_err(Failure::new)? {
        true => Ok(()),
        false => Err(Failure::new("seid was killed and is there still")),
    }
}
