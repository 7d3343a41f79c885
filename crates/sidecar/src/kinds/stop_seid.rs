//! `stop-seid`: stops seid. It is never killed: a validator that is killed may sign twice.

use std::time::Duration;

use api::sidecar_wire::TaskType;

use super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use crate::node::{process, rpc};

/// How long seid may take to write what it has.
const STOPS_WITHIN: Duration = Duration::from_secs(90);

pub(super) const KIND: Kind = Kind {
    task: TaskType::StopSeid,
    changes: &[Resource::Process],
    limit: Limit::Within(Duration::from_secs(120)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    stop(&work).await.map(|()| None)
}

/// Stops seid; nothing to do if it does not run.
pub(super) async fn stop(work: &Work) -> Result<(), Failure> {
    let Some(pid) = process::find().map_err(Failure::new)? else {
        // Somebody answers whom we do not see: to claim that it was stopped would be a lie.
        return match rpc::status(&work.node.settings().node_rpc, rpc::QUICK).await {
            Ok(_) => Err(Failure::new(
                "no seid process is seen, yet its RPC answers: the pod's containers must share their processes",
            )),
            Err(_) => Ok(()),
        };
    };
    match process::terminate(pid, STOPS_WITHIN).await.map_err(Failure::new)? {
        true => Ok(()),
        false => Err(Failure::new(format_args!(
            "seid did not stop within {} seconds and was left running",
            STOPS_WITHIN.as_secs()
        ))),
    }
}
