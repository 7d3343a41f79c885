//! `restart-seid`: stops seid, and waits until it is back. Whether it may start is not touched, so it starts at once.

use std::time::Duration;

use api::sidecar_wire::TaskType;

use super::stop_seid::stop;
use super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use crate::node::rpc;

/// How long seid may take until its RPC answers.
const BACK_WITHIN: Duration = Duration::from_secs(300);

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) const KIND: Kind = Kind {
    task: TaskType::RestartSeid,
    changes: &[Resource::Process],
    limit: Limit::Within(Duration::from_secs(420)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    stop(&work).await?;
    let rpc = &work.node.settings().node_rpc;
    let back = async {
        while rpc::status(rpc, rpc::QUICK).await.is_err() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let late =
        || format!("seid was stopped, and its RPC did not answer within {} seconds", BACK_WITHIN.as_secs());
    tokio::time::timeout(BACK_WITHIN, back).await.map_err(|_| Failure::new(late()))?;
    Ok(None)
}
