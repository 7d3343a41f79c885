//! What must be looked at before it can be decided, beside what is watched anyway.

use std::collections::BTreeSet;

use api::SeiNode;
use api::sei_node::{PlanPhase, Scheme, SeiNodePhase, SeiNodeStatus, TaskPlan, TaskStatus};

use super::action::Transport;
use super::check::claim;
use super::kind::Kind;
use super::step::Scene;
use super::task::Step;
use super::world::World;
use super::{drift, observe};
use crate::platform::Platform;

/// What must be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Ask the sidecar there whether it lets seid run.
    pub health: Option<Transport>,
    /// Ask the sidecar there what has become of the task with this id.
    pub task: Option<(Transport, String)>,
    /// See whether a sidecar is served so.
    pub served: Option<Transport>,
    /// Read these Secrets of the node's namespace.
    pub secrets: BTreeSet<String>,
    /// Read the volume behind this claim.
    pub volume_of: Option<String>,
}

/// What must be looked at before it can be decided about a node. `status` is the newest one, stored or not.
#[must_use]
pub fn needs(node: &SeiNode, status: &SeiNodeStatus, platform: &Platform, world: &World) -> Needs {
    let mut needs = Needs::default();
    let Some(kind) = Kind::of(&node.spec).filter(|_| node.metadata.deletion_timestamp.is_none()) else {
        return needs;
    };
    let scene = Scene { node, kind, platform, world };
    let tls = drift::tls(node);
    if tls.scheme == Scheme::Https {
        needs.secrets.extend(tls.secret_name.clone());
    }
    // What it serves now may be another certificate than what is wanted.
    needs.secrets.extend(status.current_sidecar_tls.as_ref().and_then(|seen| seen.secret_name.clone()));
    let active = status.plan.as_ref().filter(|plan| plan.phase == PlanPhase::Active);
    let current = active.and_then(current);
    if let Some((step, task)) = current {
        match step {
            Step::ObserveTls => needs.served = observe::transport_by(node, world, &tls),
            Step::Sidecar(_) => {
                needs.task = scene.sidecar_transport(task, status).map(|to| (to, task.id.clone()));
            }
            step => of_step(step, node, kind, &mut needs),
        }
    }
    // Whether what a failed node waited for in vain is there now.
    if status.phase == Some(SeiNodePhase::Failed)
        && let Some(step) = status.plan.as_ref().and_then(failed)
    {
        of_step(step, node, kind, &mut needs);
    }
    if status.phase == Some(SeiNodePhase::Running) && needs.served.is_none() {
        needs.health = observe::transport(node, status, world);
    }
    needs
}

/// The step of a plan that is on.
pub(super) fn current(plan: &TaskPlan) -> Option<(Step, &api::sei_node::PlannedTask)> {
    let task = plan.tasks.iter().find(|task| task.status != TaskStatus::Complete)?;
    Some((Step::from_name(&task.task_type)?, task))
}

/// The step that a plan failed at.
pub(super) fn failed(plan: &TaskPlan) -> Option<Step> {
    let index = usize::try_from(plan.failed_task_index?).ok()?;
    Step::from_name(&plan.tasks.get(index)?.task_type)
}

/// What a step of our own looks at.
fn of_step(step: Step, node: &SeiNode, kind: Kind<'_>, needs: &mut Needs) {
    let keys = kind.keys();
    match step {
        Step::ValidateSigningKey => needs.secrets.extend(keys.signing_key),
        Step::ValidateNodeKey => needs.secrets.extend(keys.node_key),
        Step::ValidateOperatorKeyring => {
            if let Some(ring) = keys.operator_keyring {
                needs.secrets.extend([ring.secret_name, ring.passphrase_secret_ref.secret_name]);
            }
        }
        Step::EnsureDataClaim => needs.volume_of = claim::imported(node).map(str::to_owned),
        _ => {}
    }
}
