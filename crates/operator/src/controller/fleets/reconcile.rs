//! Reconciles one fleet: observe, decide, act, record.

use std::sync::Arc;
use std::time::Duration;

use api::SeiNodeDeployment;
use api::fleet::SeiNodeDeploymentStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use plan::fleet::{decide, transition_events};
use runtime::Key;
use runtime::write::{WriteOutcome, Writer};

use super::super::reconcile::STALE_REQUEUE;
use super::act::Executor;
use super::{Error, FleetController};

/// Rounds of one reconcile. Each observes what the previous one wrote.
const MAX_ROUNDS: usize = 8;

/// Reconciles a fleet until nothing is left to do now. Returns the requeue delay.
pub(in super::super) async fn reconcile(
    controller: Arc<FleetController>,
    writer: Writer,
    key: Key,
) -> Result<Option<Duration>, Error> {
    let mut status = None;
    for _ in 0..MAX_ROUNDS {
        let Some(fleet) = controller.fleets.get(&controller.client, &key).await? else {
            controller.fleets.forget(&key);
            return Ok(None);
        };
        let round = run_round(&controller, &writer, &key, &fleet, status.take()).await?;
        if let Some(failure) = round.failure {
            // Stored first: the status says what was refused.
            record(&controller, &writer, &fleet, &round.status).await?;
            return Err(failure);
        }
        if !round.has_changed {
            let is_stored = record(&controller, &writer, &fleet, &round.status).await?;
            return Ok(if is_stored { round.requeue_after } else { Some(STALE_REQUEUE) });
        }
        status = Some(round.status);
    }
    Ok(Some(STALE_REQUEUE))
}

/// The result of a round.
struct Round {
    status: SeiNodeDeploymentStatus,
    has_changed: bool,
    failure: Option<Error>,
    requeue_after: Option<Duration>,
}

async fn run_round(
    controller: &FleetController,
    writer: &Writer,
    key: &Key,
    fleet: &SeiNodeDeployment,
    status: Option<SeiNodeDeploymentStatus>,
) -> Result<Round, Error> {
    let mut observed = controller.observe(key, fleet).await?;
    let status = status.or_else(|| fleet.status.clone()).unwrap_or_default();
    let now = Time(Timestamp::now());
    let decision = decide(fleet, status.clone(), &observed, &now);
    let executor = Executor { controller, writer, fleet };
    let mut has_changed = false;
    for action in decision.actions {
        has_changed |= executor.execute(action, &mut observed).await?;
    }
    let Some((kind, reason)) = observed.write_failures.iter().next() else {
        let requeue_after = decision.requeue_after;
        return Ok(Round { status: decision.status, has_changed, failure: None, requeue_after });
    };
    let failure = Error::RefusedFleet { kind: kind.clone(), reason: reason.clone() };
    // Once more, with the refusal: the conditions name it.
    let decision = decide(fleet, status, &observed, &now);
    Ok(Round { status: decision.status, has_changed, failure: Some(failure), requeue_after: None })
}

/// Stores the status. Returns false if the fleet has changed in the meantime.
async fn record(
    controller: &FleetController,
    writer: &Writer,
    fleet: &Arc<SeiNodeDeployment>,
    status: &SeiNodeDeploymentStatus,
) -> Result<bool, Error> {
    let none = SeiNodeDeploymentStatus::default();
    match writer.status_update(&**fleet).write(status).await? {
        WriteOutcome::Unchanged | WriteOutcome::Missing => Ok(true),
        WriteOutcome::Applied(stored) => {
            let stored = controller.fleets.record_write(stored);
            let before = fleet.status.as_ref().unwrap_or(&none);
            controller.events.publish(&*stored, &transition_events(before, status));
            Ok(true)
        }
        WriteOutcome::Stale(_) => Ok(false),
        WriteOutcome::Conflict(reason)
        | WriteOutcome::Rejected(reason)
        | WriteOutcome::Forbidden(reason)
        | WriteOutcome::UnknownKind(reason)
        | WriteOutcome::Unavailable(reason)
        | WriteOutcome::Unknown(reason) => Err(Error::Status(reason)),
    }
}
