//! The operator's pass, as the real one does it, on the abstract cluster; and the ways in which it can be disturbed.

use std::sync::Arc;

use api::sei_node::{PlanPhase, SeiNodePhase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use plan::Platform;
use plan::node::{Action, Doomed, Refusal, Submission, World, decide, needs};

use super::cluster::Cluster;

/// What happens to a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disturbance {
    /// Nothing.
    None,
    /// The operator is killed after so many acts; its status is not stored.
    KilledAfter(usize),
    /// The act with this number is done, but its answer is lost.
    AnswerLost(usize),
}

/// The time in the model.
pub fn time(minutes: i64) -> Time {
    let begin: Timestamp = "2026-05-18T10:00:00Z".parse().unwrap();
    Time(begin.saturating_add(SignedDuration::from_mins(minutes)).unwrap())
}

/// One pass. Returns how many acts it had.
pub fn pass(cluster: &mut Cluster, platform: &Platform, disturbed: Disturbance) -> usize {
    let node = cluster.node.clone();
    // Of this pass alone: what another course of events has computed for the same generation was from another spec.
    let mut world = World { memo: Arc::default(), ..cluster.world.clone() };
    let mut status = node.status.clone().unwrap_or_default();
    cluster.plans += 1;
    let fresh = format!("00000000-0000-4000-8000-{:012}", cluster.plans);
    let before = status.plan.as_ref().map(|plan| plan.id.clone());
    let mut acts = 0;
    for _ in 0..64 {
        let asked = needs(&node, &status, platform, &world);
        cluster.observe(&asked, &mut world);
        let decision = decide(&node, status, platform, &world, &time(cluster.minutes), &fresh);
        status = decision.status;
        if decision.actions.is_empty() {
            if needs(&node, &status, platform, &world) == asked {
                break;
            }
            continue;
        }
        let stored = node.status.as_ref();
        let planned = stored
            .and_then(|stored| stored.plan.as_ref())
            .is_some_and(|plan| plan.phase == PlanPhase::Active);
        let running = stored.is_some_and(|stored| stored.phase == Some(SeiNodePhase::Running));
        assert!(planned || running, "acted on a plan that is not stored");
        for action in &decision.actions {
            acts += 1;
            if disturbed == Disturbance::AnswerLost(acts) {
                let mut lost = world.clone();
                cluster.act(action, &mut lost);
                lose(action, &mut world);
            } else {
                cluster.act(action, &mut world);
            }
            if disturbed == Disturbance::KilledAfter(acts) {
                return acts;
            }
        }
    }
    cluster.record(&status);
    if status.plan.as_ref().map(|plan| plan.id.clone()) == before {
        // The id was not used: the next pass may have it.
        cluster.plans -= 1;
    }
    acts
}

/// What the operator knows after an act whose answer was lost.
fn lose(action: &Action, world: &mut plan::node::World) {
    let unknown = || "no answer".to_owned();
    match action {
        Action::Apply(object) | Action::Create(object) => {
            world.refused.insert(object.kind(), Refusal::NotNow(unknown()));
        }
        Action::Delete(doomed) => {
            let kind = match doomed {
                Doomed::Pod(_) => "Pod",
                Doomed::Service(_) => "Service",
                Doomed::Job(_) => "Job",
                Doomed::Certificate(_) => "Certificate",
            };
            world.refused.insert(kind, Refusal::NotNow(unknown()));
        }
        Action::Submit(_, request) => {
            let id = request.id.clone().unwrap_or_default();
            world.sidecar.submitted = Some((id, Submission::Unknown(unknown())));
        }
    }
}
