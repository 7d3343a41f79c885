//! The decide stage: runs the decision core, and its actions, until no action is left.

use api::SeiNode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use plan::node::{Decision, Observed, RequiredObservations, decide, required_observations};
use runtime::Key;
use runtime::write::Writer;

use super::act::Executor;
use super::observe::observe_required;
use super::{Controller, Error};

/// Decisions in one round: more than any plan has steps.
pub(super) const MAX_DECISIONS: usize = 200;

/// Decides and acts until a decision has no actions and requires no further observation.
pub(super) async fn decide_and_act(
    controller: &Controller,
    writer: &Writer,
    key: &Key,
    node: &SeiNode,
    observed: &mut Observed,
) -> Result<Decision, Error> {
    let platform = &controller.platform;
    let plan_id = random_id();
    let mut status = node.status.clone().unwrap_or_default();
    let mut repairs = Vec::new();
    let mut done = RequiredObservations::default();
    let Controller { stores, sidecars, secrets, .. } = controller;
    let executor = Executor { writer, stores, sidecars, secrets, key, node };
    for _ in 0..MAX_DECISIONS {
        let required = required_observations(node, &status, platform, observed);
        observe_required(controller, key, node, &required, &done, observed).await?;
        let now = Time(Timestamp::now());
        let mut decision = decide(node, status, platform, observed, &now, &plan_id);
        let is_idle = decision.actions.is_empty();
        // Repairs have one message each, and other actions have none. A refused repair is not reported as done.
        let mut messages = std::mem::take(&mut decision.repairs).into_iter();
        for action in std::mem::take(&mut decision.actions) {
            let kind = action.kind();
            executor.execute(action, observed).await?;
            repairs.extend(messages.next().filter(|_| !observed.write_failures.contains_key(kind)));
        }
        if is_idle && required_observations(node, &decision.status, platform, observed) == required {
            decision.repairs = repairs;
            return Ok(decision);
        }
        done = required;
        status = decision.status;
    }
    Err(Error::NotConverged)
}

/// Returns a random UUID, used as the id of a new plan.
fn random_id() -> String {
    uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid().to_string()
}
