//! The step that asks the running sidecar about the new configuration before anything is changed.

use api::sei_node::SeiNodeStatus;
use api::sidecar_wire::TaskRequest;

use super::{StepOutcome, sidecar};
use crate::node::action::Transport;
use crate::node::context::NodeContext;
use crate::node::observed::DryRunObservation;
use crate::node::stored_plan;

/// Fails if the running sidecar rejects the configuration that the plan is about to apply. Every other answer, and none, lets the
/// plan continue: the edit may be what repairs the sidecar.
pub(super) fn check_config(context: NodeContext<'_>, status: &SeiNodeStatus) -> StepOutcome {
    let Some((transport, request)) = config_dry_run(context, status) else {
        return StepOutcome::Skipped("the pod does not exist".into());
    };
    match context.observed.sidecar.dry_run_of(&request) {
        DryRunObservation::Valid => StepOutcome::DONE,
        DryRunObservation::NotSupported => StepOutcome::Skipped("the running sidecar has no dry-run".into()),
        DryRunObservation::Unavailable(why) => StepOutcome::Skipped(why.clone()),
        DryRunObservation::Rejected(why) => StepOutcome::Fatal(why.clone()),
        DryRunObservation::Unknown => {
            StepOutcome::poll("Sidecar", transport.host, Some("it checks the new configuration".into()))
        }
    }
}

/// Returns what to ask the sidecar of the node's pod: the task with which the active plan applies the configuration, without its id.
pub(in crate::node) fn config_dry_run(
    context: NodeContext<'_>,
    status: &SeiNodeStatus,
) -> Option<(Transport, TaskRequest)> {
    let task = status.plan.as_ref().and_then(stored_plan::config_apply)?;
    let transport = context.observed_transport(status)?;
    Some((transport, TaskRequest { id: None, ..sidecar::request(task) }))
}
