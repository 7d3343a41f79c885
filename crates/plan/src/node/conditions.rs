//! The conditions of a node. Each is always present, with a reason and a message that says what to do.

use api::SeiNode;
use api::condition::{
    self, ImportPVCReady, NodeKeyReady, NodeUpdateInProgress, OperatorKeyringReady, Paused, Ready, Reason,
    SidecarReady, SigningKeyReady, SpecApplied,
};
use api::names::object;
use api::sei_node::{PlanChanges, PlanKind, PlanPhase, SeiNodePhase, SeiNodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::check::{claim, tls_secret};
use super::context::{NodeContext, node_pod};
use super::drift::Drift;
use super::observed::{Health, Observed, WriteFailure};
use super::step::StepOutcome;
use super::task::Step;
use super::tls::desired_tls;
use super::unapplied_fields;

/// What the decision found that is not in the status.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// What an update changes, or would change.
    pub(super) update: Option<Drift>,
    /// What would be changed if the node were not paused.
    pub(super) pending: Vec<String>,
    /// What an edit of the spec waits for.
    pub(super) edit_queued: Option<String>,
    /// What is wrong with the spec. Then no plan starts.
    pub(super) spec_problems: Vec<String>,
    /// The claim of the data volume is being deleted: what to do.
    pub(super) claim_termination: Option<String>,
    /// The data volume of a node that signs blocks is missing.
    pub(super) is_data_volume_missing: bool,
}

/// The message while the sidecar waits for mark-ready.
const AWAITING_MARK_READY: &str =
    "the sidecar holds seid back until it receives mark-ready; the operator submits it";

/// The message while the pod of a running node does not exist.
const NO_POD: &str = "the pod does not exist";

/// Writes every condition. There is no context for a node that is being deleted, or whose spec has no kind.
pub(super) fn write(
    node: &SeiNode,
    context: Option<NodeContext<'_>>,
    status: &mut SeiNodeStatus,
    observed: &Observed,
    findings: &Findings,
    now: &Time,
) {
    let mut writer = Writer { status, generation: node.metadata.generation.unwrap_or_default(), now };
    writer.paused(node, findings);
    writer.update(findings);
    writer.sidecar(observed);
    writer.spec(node, context, findings);
    if let Some(context) = context {
        writer.inputs(context);
    }
    let tls = tls_secret::check(node, &desired_tls(node), observed);
    writer.set(tls.reason, &tls.message);
    writer.ready(node, observed, findings);
}

/// Writes the condition of an input (an imported volume or a key) after its step was evaluated.
pub(super) fn report_input(
    context: NodeContext<'_>,
    step: Step,
    outcome: &StepOutcome,
    status: &mut SeiNodeStatus,
    now: &Time,
) {
    // The index of the reason: valid, pending, invalid.
    let (index, message) = match outcome {
        StepOutcome::Done(_) => (0, "validated"),
        StepOutcome::Wait(wait) => (1, wait.message.as_deref().unwrap_or_default()),
        StepOutcome::Fatal(why) => (2, why.as_str()),
        StepOutcome::Act(_) | StepOutcome::Failed(_) => return,
    };
    let generation = context.node.metadata.generation.unwrap_or_default();
    let mut writer = Writer { status, generation, now };
    match step {
        Step::EnsureDataClaim if claim::imported(context.node).is_some() => {
            use ImportPVCReady::{PVCInvalid, PVCNotReady, PVCValidated};
            writer.set([PVCValidated, PVCNotReady, PVCInvalid][index], message);
        }
        Step::ValidateSigningKey => {
            use SigningKeyReady::{SigningKeyInvalid, SigningKeyNotReady, SigningKeyValidated};
            writer.set([SigningKeyValidated, SigningKeyNotReady, SigningKeyInvalid][index], message);
        }
        Step::ValidateNodeKey => {
            use NodeKeyReady::{NodeKeyInvalid, NodeKeyNotReady, NodeKeyValidated};
            writer.set([NodeKeyValidated, NodeKeyNotReady, NodeKeyInvalid][index], message);
        }
        Step::ValidateOperatorKeyring => {
            use OperatorKeyringReady::{
                OperatorKeyringInvalid, OperatorKeyringNotReady, OperatorKeyringValidated,
            };
            let reasons = [OperatorKeyringValidated, OperatorKeyringNotReady, OperatorKeyringInvalid];
            writer.set(reasons[index], message);
        }
        _ => {}
    }
}

struct Writer<'a> {
    status: &'a mut SeiNodeStatus,
    generation: i64,
    now: &'a Time,
}

impl Writer<'_> {
    fn set<R: Reason>(&mut self, reason: R, message: &str) {
        condition::set(&mut self.status.conditions, reason, message, self.generation, self.now);
    }

    fn has<R: Reason>(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.type_ == R::CONDITION)
    }

    fn message_of<R: Reason>(&self) -> String {
        let found = self.status.conditions.iter().find(|condition| condition.type_ == R::CONDITION);
        found.map(|condition| condition.message.clone()).unwrap_or_default()
    }

    fn paused(&mut self, node: &SeiNode, findings: &Findings) {
        if !node.spec.paused {
            return self.set(Paused::NotPaused, "spec.paused is false");
        }
        let pending = if findings.pending.is_empty() { "none".into() } else { findings.pending.join("; ") };
        self.set(Paused::Paused, &format!("spec.paused is true; pending changes: {pending}"));
    }

    fn update(&mut self, findings: &Findings) {
        let plan = self.status.plan.as_ref().filter(|plan| plan.kind == Some(PlanKind::NodeUpdate));
        let Some(plan) = plan else {
            // A later plan of another kind does not change the result of the last update.
            if !self.has::<NodeUpdateInProgress>()
                || condition::is_true::<NodeUpdateInProgress>(&self.status.conditions)
            {
                self.set(NodeUpdateInProgress::NoUpdate, "the node is in sync with its spec");
            }
            return;
        };
        let id = plan.id.clone();
        match plan.phase {
            PlanPhase::Active => {
                let Drift { changes, phrases } = findings.update.clone().unwrap_or_default();
                let has_others = changes != PlanChanges { tls: changes.tls, ..PlanChanges::default() };
                let reason = match (changes.tls, has_others) {
                    (true, false) => NodeUpdateInProgress::TLSToggleStarted,
                    (true, true) => NodeUpdateInProgress::UpdateAndTLSToggleStarted,
                    (false, _) => NodeUpdateInProgress::UpdateStarted,
                };
                // Changes that are done are no longer drift; the message keeps naming everything that the plan is for.
                let is_reported = condition::has_reason(&self.status.conditions, reason)
                    && self.message_of::<NodeUpdateInProgress>().starts_with(&format!("plan {id}"));
                if !is_reported {
                    self.set(reason, &format!("plan {id}: {}", phrases.join("; ")));
                }
            }
            PlanPhase::Complete => {
                self.set(NodeUpdateInProgress::UpdateComplete, &format!("plan {id} is complete"));
            }
            PlanPhase::Failed => {
                let detail = plan.failed_task_detail.as_ref();
                let why =
                    detail.map(|task| format!("{}: {}", task.task_type, task.error)).unwrap_or_default();
                self.set(NodeUpdateInProgress::UpdateFailed, &format!("plan {id} failed at {why}"));
            }
        }
    }

    fn sidecar(&mut self, observed: &Observed) {
        let is_running = self.status.phase == Some(SeiNodePhase::Running);
        match &observed.sidecar.health {
            Health::Ready => self.set(SidecarReady::Ready, "the sidecar lets seid run"),
            Health::NotReady => self.set(SidecarReady::NotReady, AWAITING_MARK_READY),
            Health::Unreachable(why) => self.set(SidecarReady::Unreachable, why),
            Health::Unknown if !self.has::<SidecarReady>() => {
                self.set(SidecarReady::NotProbed, "the node is not set up yet");
            }
            Health::Unknown if is_running && observed.pods.is_empty() => {
                self.set(SidecarReady::Unreachable, NO_POD);
            }
            // The answer is pending.
            Health::Unknown => {}
        }
    }

    fn spec(&mut self, node: &SeiNode, context: Option<NodeContext<'_>>, findings: &Findings) {
        let Some(context) = context else {
            if node.metadata.deletion_timestamp.is_none() {
                let message = "the spec has no kind: set one of fullNode, archive, replayer and validator";
                self.set(SpecApplied::SpecInvalid, message);
            } else if !self.has::<SpecApplied>() {
                self.set(SpecApplied::NotEvaluated, "the node is being deleted");
            }
            return;
        };
        if !findings.spec_problems.is_empty() {
            return self.set(SpecApplied::SpecInvalid, &findings.spec_problems.join("; "));
        }
        let first = |select: fn(&WriteFailure) -> Option<&String>| {
            let failures = context.observed.write_failures.iter();
            failures.filter_map(|(kind, failure)| Some(format!("{kind}: {}", select(failure)?))).next()
        };
        let rejected = first(|failure| match failure {
            WriteFailure::Rejected(why) => Some(why),
            _ => None,
        });
        let conflict = first(|failure| match failure {
            WriteFailure::Conflict(why) => Some(why),
            _ => None,
        });
        let refused = first(|failure| match failure {
            WriteFailure::Transient(why) => Some(why),
            _ => None,
        });
        let unapplied = unapplied_fields::find(context, self.status);
        match (rejected, conflict, refused) {
            (Some(why), ..) => self.set(SpecApplied::SpecInvalid, &why),
            (None, Some(why), _) => self.set(SpecApplied::ApplyConflict, &why),
            (None, None, Some(why)) => self.set(SpecApplied::WriteRefused, &why),
            _ if findings.edit_queued.is_some() => {
                self.set(SpecApplied::EditQueued, findings.edit_queued.as_deref().unwrap_or_default());
            }
            _ if !unapplied.is_empty() => self.set(SpecApplied::FieldsNotApplied, &unapplied.join("; ")),
            _ => self.set(SpecApplied::AllApplied, "every field of the spec is applied"),
        }
    }

    /// Adds the conditions of inputs that were not validated yet.
    fn inputs(&mut self, context: NodeContext<'_>) {
        let keys = context.kind.key_secrets();
        let pending = "not validated yet";
        if claim::imported(context.node).is_some() && !self.has::<ImportPVCReady>() {
            self.set(ImportPVCReady::PVCNotReady, pending);
        }
        if keys.signing_key.is_some() && !self.has::<SigningKeyReady>() {
            self.set(SigningKeyReady::SigningKeyNotReady, pending);
        }
        if keys.node_key.is_some() && !self.has::<NodeKeyReady>() {
            self.set(NodeKeyReady::NodeKeyNotReady, pending);
        }
        if keys.operator_keyring.is_some() && !self.has::<OperatorKeyringReady>() {
            self.set(OperatorKeyringReady::OperatorKeyringNotReady, pending);
        }
    }

    fn ready(&mut self, node: &SeiNode, observed: &Observed, findings: &Findings) {
        let waiting = self.status.waiting_for.as_ref().map(|waiting| {
            let message = waiting.message.as_deref().unwrap_or_default();
            format!("waiting for {} {}: {message}", waiting.what, waiting.name)
        });
        let step = self.status.plan_step.clone().unwrap_or_default();
        let progress = waiting.unwrap_or_else(|| format!("executing step {step}"));
        let active = self.status.plan.as_ref().filter(|plan| plan.phase == PlanPhase::Active);
        let is_updating = active.is_some_and(|plan| plan.kind == Some(PlanKind::NodeUpdate));
        let failed = self.status.last_failed_plan.as_ref().map(|failed| {
            let times =
                if failed.attempts > 1 { format!(" {} times", failed.attempts) } else { String::new() };
            let next = match &failed.next_retry_at {
                Some(time) => format!("next attempt at {}", time.0),
                None => "edit the spec to try again".into(),
            };
            format!(
                "step {} ({}) failed{times}: {}; {next}",
                failed.step, failed.task.task_type, failed.task.error
            )
        });
        let pod = node_pod(node, observed);
        let pod_failure = pod.and_then(|pod| pod.failure().or_else(|| pod.recent_crash(self.now)));
        let conditions = &self.status.conditions;
        let is_spec_unapplied = condition::has_reason(conditions, SpecApplied::SpecInvalid)
            || condition::has_reason(conditions, SpecApplied::ApplyConflict);
        let is_write_refused = condition::has_reason(conditions, SpecApplied::WriteRefused);
        match self.status.phase {
            Some(SeiNodePhase::Terminating) => self.set(Ready::Terminating, "the node is being deleted"),
            Some(SeiNodePhase::Running) if findings.claim_termination.is_some() => {
                self.set(
                    Ready::DataVolumeTerminating,
                    findings.claim_termination.as_deref().unwrap_or_default(),
                );
            }
            _ if is_spec_unapplied => {
                let message = self.message_of::<SpecApplied>();
                self.set(Ready::SpecNotApplied, &message);
            }
            None | Some(SeiNodePhase::Pending | SeiNodePhase::Initializing) => {
                self.set(Ready::Initializing, &progress)
            }
            Some(SeiNodePhase::Failed) => self.set(Ready::PlanFailed, &failed.unwrap_or_default()),
            Some(SeiNodePhase::Running) if findings.is_data_volume_missing => {
                let claim = object::data_claim(node.metadata.name.as_deref().unwrap_or_default());
                let message = format!(
                    "PersistentVolumeClaim {claim} not found: restore it with its data (with an empty volume the \
                     validator could sign a block twice), or delete the node"
                );
                self.set(Ready::DataVolumeMissing, &message);
            }
            Some(SeiNodePhase::Running) if is_updating => self.set(Ready::Updating, &progress),
            Some(SeiNodePhase::Running) if is_write_refused => {
                let message = self.message_of::<SpecApplied>();
                self.set(Ready::SpecNotApplied, &message);
            }
            Some(SeiNodePhase::Running) if findings.update.is_some() && failed.is_some() => {
                self.set(Ready::PlanFailed, &failed.unwrap_or_default());
            }
            Some(SeiNodePhase::Running) => match (pod_failure, &observed.sidecar.health) {
                (Some(failure), _) => self.set(Ready::PodFailing, &failure),
                (None, Health::Ready) => {
                    self.set(Ready::NodeReady, "the node is running and in sync with its spec");
                }
                (None, Health::NotReady) => self.set(Ready::SidecarNotReady, AWAITING_MARK_READY),
                (None, Health::Unreachable(why)) => self.set(Ready::SidecarUnreachable, why),
                (None, Health::Unknown) if !self.has::<Ready>() || observed.pods.is_empty() => {
                    self.set(Ready::SidecarUnreachable, NO_POD);
                }
                // The answer is pending.
                (None, Health::Unknown) => {}
            },
        }
    }
}
