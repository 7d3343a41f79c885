//! The conditions of a node. Each is always present, with a reason and a message that says what to do.

use api::SeiNode;
use api::condition::{
    self, ChainSynced, ImportPVCReady, NodeKeyReady, NodeUpdateInProgress, OperatorKeyringReady, Paused,
    Ready, Reason, SidecarReady, SidecarTLSSecretReady, SigningKeyReady, SpecApplied, Status, StorageReady,
};
use api::names::{annotation, container};
use api::sei_node::{PlanChanges, PlanKind, PlanPhase, SeiNodePhase, SeiNodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::check::{claim, tls_secret};
use super::context::{NodeContext, node_pod};
use super::drift::Drift;
use super::observed::{ChainObservation, Health, Observed, WriteFailure};
use super::pace::Queued;
use super::step::StepOutcome;
use super::task::Step;
use super::tls::desired_tls;
use super::{adoption, applied_spec, chain, stored_plan, unapplied_fields, volume};

/// What the decision found that is not in the status.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// What an update changes, or would change.
    pub(super) update: Option<Drift>,
    /// What would be changed if the node were not paused.
    pub(super) pending: Vec<String>,
    /// An update that waits for its turn.
    pub(super) update_queued: Option<(Drift, Queued)>,
    /// An update that the sidecar has rejected is not required any more.
    pub(super) is_update_withdrawn: bool,
    /// What an edit of the spec waits for.
    pub(super) edit_queued: Option<String>,
    /// What is wrong with the spec. Then no plan starts.
    pub(super) spec_problems: Vec<String>,
    /// Which referenced Secrets and claims the node may not use. Then no plan starts.
    pub(super) refused_references: Vec<String>,
    /// The claim of the data volume is being deleted: what to do.
    pub(super) claim_termination: Option<String>,
    /// The data volume of a node that signs blocks is missing.
    pub(super) is_data_volume_missing: bool,
}

/// The message while the sidecar waits for mark-ready.
const AWAITING_MARK_READY: &str =
    "the sidecar holds seid back until it receives mark-ready; the operator submits it";

/// The message of a node without an update.
const IN_SYNC: &str = "the node is in sync with its spec";

/// The message while the pod of a running node does not exist.
const NO_POD: &str = "the pod does not exist";

/// Writes every condition. There is no context for a node that is being deleted, or whose spec has no kind. Returns when a condition
/// changes by the passage of time alone.
pub(super) fn write(
    node: &SeiNode,
    context: Option<NodeContext<'_>>,
    status: &mut SeiNodeStatus,
    observed: &Observed,
    findings: &Findings,
    now: &Time,
) -> Option<Timestamp> {
    let mut writer = Writer { status, generation: node.metadata.generation.unwrap_or_default(), now };
    writer.paused(node, findings);
    writer.update(findings);
    writer.sidecar(observed);
    writer.chain(context, observed);
    writer.spec(node, context, observed, findings);
    if let Some(context) = context {
        writer.inputs(context);
    }
    writer.storage(context);
    let changes_at = writer.tls_secret(node, context, observed);
    writer.ready(node, observed, findings);
    // A condition that changed and changed back within this reconcile has not changed.
    let stored = node.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition::keep_transition_times(&mut status.conditions, stored);
    changes_at
}

/// Writes the condition of an input (an imported volume or a key) after its step was evaluated.
pub(super) fn report_input(
    context: NodeContext<'_>,
    step: Step,
    outcome: &StepOutcome,
    status: &mut SeiNodeStatus,
    now: &Time,
) {
    // The index of the reason: valid, pending, invalid, in use.
    let (index, message) = match outcome {
        StepOutcome::Done(_) => (0, "validated"),
        StepOutcome::Wait(wait) if wait.is_in_use => (3, wait.message.as_deref().unwrap_or_default()),
        StepOutcome::Wait(wait) => (1, wait.message.as_deref().unwrap_or_default()),
        StepOutcome::Fatal(why) => (2, why.as_str()),
        StepOutcome::Skipped(_) | StepOutcome::Act(_) | StepOutcome::Failed(_) => return,
    };
    let generation = context.node.metadata.generation.unwrap_or_default();
    let mut writer = Writer { status, generation, now };
    match step {
        Step::EnsureDataClaim if claim::imported(context.node).is_some() => {
            use ImportPVCReady::{PVCInUse, PVCInvalid, PVCNotReady, PVCValidated};
            writer.set([PVCValidated, PVCNotReady, PVCInvalid, PVCInUse][index], message);
        }
        Step::ValidateSigningKey => {
            use SigningKeyReady::{
                SigningKeyInUse, SigningKeyInvalid, SigningKeyNotReady, SigningKeyValidated,
            };
            let reasons = [SigningKeyValidated, SigningKeyNotReady, SigningKeyInvalid, SigningKeyInUse];
            writer.set(reasons[index], message);
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
        condition::find::<R>(&self.status.conditions).is_some()
    }

    fn message_of<R: Reason>(&self) -> String {
        condition::find::<R>(&self.status.conditions)
            .map(|condition| condition.message.clone())
            .unwrap_or_default()
    }

    fn paused(&mut self, node: &SeiNode, findings: &Findings) {
        if !node.spec.paused {
            return self.set(Paused::NotPaused, "spec.paused is false");
        }
        let pending = if findings.pending.is_empty() { "none".into() } else { findings.pending.join("; ") };
        self.set(Paused::Paused, &format!("spec.paused is true; pending changes: {pending}"));
    }

    fn update(&mut self, findings: &Findings) {
        if let Some((drift, queued)) = &findings.update_queued {
            return self.set(NodeUpdateInProgress::UpdateQueued, &queue_message(drift, queued));
        }
        if findings.is_update_withdrawn {
            return self.set(NodeUpdateInProgress::NoUpdate, IN_SYNC);
        }
        if self.status.plan.as_ref().is_some_and(stored_plan::is_interruption) {
            // The update continues afterwards.
            return;
        }
        let plan = self
            .status
            .plan
            .as_ref()
            .filter(|plan| matches!(plan.kind, Some(PlanKind::NodeUpdate | PlanKind::Rollback)));
        let Some(plan) = plan else {
            let conditions = &self.status.conditions;
            // A later plan of another kind does not change the result of the last update.
            if !self.has::<NodeUpdateInProgress>()
                || condition::is_true::<NodeUpdateInProgress>(conditions)
                || condition::has_reason(conditions, NodeUpdateInProgress::UpdateQueued)
            {
                self.set(NodeUpdateInProgress::NoUpdate, IN_SYNC);
            }
            return;
        };
        let id = plan.id.clone();
        let is_rollback = plan.kind == Some(PlanKind::Rollback);
        let skipped = stored_plan::skipped_dry_run(plan)
            .map(|why| format!("; the running sidecar did not check the configuration: {why}"));
        match plan.phase {
            PlanPhase::Active if is_rollback => {
                let message =
                    format!("plan {id}: return to the previous configuration after a failed update");
                self.set(NodeUpdateInProgress::RollbackStarted, &message);
            }
            PlanPhase::Complete if is_rollback => {
                let message = format!("plan {id}: the node runs its previous configuration");
                self.set(NodeUpdateInProgress::UpdateFailed, &message);
            }
            PlanPhase::Active => {
                let Drift { changes, phrases, .. } = findings.update.clone().unwrap_or_default();
                let has_others = changes != PlanChanges { tls: changes.tls, ..PlanChanges::default() };
                let reason = match (changes.tls, has_others) {
                    (true, false) => NodeUpdateInProgress::TLSToggleStarted,
                    (true, true) => NodeUpdateInProgress::UpdateAndTLSToggleStarted,
                    (false, _) => NodeUpdateInProgress::UpdateStarted,
                };
                // Changes that are done are no longer drift; the message keeps naming everything that the plan is for.
                let is_reported = condition::has_reason(&self.status.conditions, reason)
                    && self.message_of::<NodeUpdateInProgress>().starts_with(&format!("plan {id}"));
                let mut message = if is_reported {
                    self.message_of::<NodeUpdateInProgress>()
                } else {
                    format!("plan {id}: {}", phrases.join("; "))
                };
                if let Some(skipped) = skipped.filter(|skipped| !message.ends_with(skipped.as_str())) {
                    message.push_str(&skipped);
                }
                self.set(reason, &message);
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

    fn chain(&mut self, context: Option<NodeContext<'_>>, observed: &Observed) {
        let is_running = self.status.phase == Some(SeiNodePhase::Running);
        let checked = context
            .filter(|_| is_running)
            .and_then(|context| chain::check(observed, context.platform.chain_halt_timeout, self.now));
        if let Some((reason, message)) = checked {
            self.set(reason, &message);
        } else if !self.has::<ChainSynced>() {
            self.set(ChainSynced::NotObserved, "not observed yet");
        }
    }

    fn spec(
        &mut self,
        node: &SeiNode,
        context: Option<NodeContext<'_>>,
        observed: &Observed,
        findings: &Findings,
    ) {
        if node.metadata.deletion_timestamp.is_some() {
            return self.spec_of_deleted(observed);
        }
        let Some(context) = context else {
            let message = "the spec has no kind: set one of fullNode, archive, replayer and validator";
            return self.set(SpecApplied::SpecInvalid, message);
        };
        if !findings.refused_references.is_empty() {
            return self.set(SpecApplied::ReferenceRefused, &findings.refused_references.join("; "));
        }
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
        let rolled_back = rollback_message(context.name(), self.status);
        let pending = if adoption::is_unchanged(context, self.status) {
            adoption::pending_changes(context, self.status)
        } else {
            Vec::new()
        };
        match (rejected, conflict, refused) {
            (Some(why), ..) => self.set(SpecApplied::SpecInvalid, &why),
            (None, Some(why), _) => self.set(SpecApplied::ApplyConflict, &why),
            (None, None, Some(why)) => self.set(SpecApplied::WriteRefused, &why),
            _ if findings.edit_queued.is_some() => {
                self.set(SpecApplied::EditQueued, findings.edit_queued.as_deref().unwrap_or_default());
            }
            _ if rolled_back.is_some() => {
                self.set(SpecApplied::UpdateRolledBack, &rolled_back.unwrap_or_default());
            }
            _ if !pending.is_empty() => {
                let message = format!(
                    "taken over from another controller and left as it is; the next edit of the spec replaces the pod once and \
                     also applies: {}",
                    pending.join("; ")
                );
                self.set(SpecApplied::AdoptedNodePending, &message);
            }
            _ if !unapplied.is_empty() => self.set(SpecApplied::FieldsNotApplied, &unapplied.join("; ")),
            _ => self.set(SpecApplied::AllApplied, "every field of the spec is applied"),
        }
    }

    /// Reports the refused writes of a node that is being deleted. Nothing else of its spec is evaluated.
    fn spec_of_deleted(&mut self, observed: &Observed) {
        let was_refused = condition::has_reason(&self.status.conditions, SpecApplied::WriteRefused);
        match observed.write_failures.iter().next() {
            Some((kind, failure)) => {
                let message = format!("{kind}: {}; the node is deleted after this write", failure.message());
                self.set(SpecApplied::WriteRefused, &message);
            }
            None if was_refused || !self.has::<SpecApplied>() => {
                self.set(SpecApplied::NotEvaluated, "the node is being deleted");
            }
            None => {}
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

    /// Writes `Ready` of a node whose sidecar lets seid run.
    fn seid_ready(&mut self, is_container_ready: bool, answer: &ChainObservation) {
        let conditions = &self.status.conditions;
        let chain = condition::find::<ChainSynced>(conditions);
        if let Some(chain) = chain.filter(|chain| chain.status == Status::False.as_str()) {
            let message = chain.message.clone();
            return self.set(Ready::ChainNotSynced, &message);
        }
        let is_synced = condition::is_true::<ChainSynced>(conditions);
        match answer {
            // The sidecar reports the chain, and seid does not answer: its process may hang.
            ChainObservation::Unavailable(why) if !is_synced => {
                let message = format!("seid does not answer: {why}: see its log if this persists");
                self.set(Ready::SeidNotReady, &message);
            }
            // The answer is pending.
            ChainObservation::Unknown
                if !is_synced && condition::has_reason(conditions, Ready::SeidNotReady) => {}
            _ if is_container_ready => {
                self.set(Ready::NodeReady, "the node is running and in sync with its spec");
            }
            _ => {
                let message = "the readiness probe of the container seid does not succeed yet: see its log if this persists";
                self.set(Ready::SeidNotReady, message);
            }
        }
    }

    /// Writes the condition of the certificate. Returns when it changes by the passage of time alone.
    fn tls_secret(
        &mut self,
        node: &SeiNode,
        context: Option<NodeContext<'_>>,
        observed: &Observed,
    ) -> Option<Timestamp> {
        // Without a context no Secret was read.
        if context.is_none() && self.has::<SidecarTLSSecretReady>() {
            return None;
        }
        let tls = tls_secret::check(node, &desired_tls(node), observed, self.now);
        self.set(tls.reason, &tls.message);
        tls.changes_at
    }

    /// Writes the condition of the data volume.
    fn storage(&mut self, context: Option<NodeContext<'_>>) {
        match context.map(volume::assess) {
            Some(volume) => self.set(volume.reason, &volume.message),
            None if !self.has::<StorageReady>() => {
                self.set(StorageReady::VolumePending, "the node is not set up");
            }
            None => {}
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
        let is_updating =
            active.is_some_and(|plan| matches!(plan.kind, Some(PlanKind::NodeUpdate | PlanKind::Rollback)));
        let is_edit_paused = node.spec.paused && applied_spec::is_edited(node, self.status);
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
            || condition::has_reason(conditions, SpecApplied::ReferenceRefused)
            || condition::has_reason(conditions, SpecApplied::ApplyConflict)
            || (!is_updating && condition::has_reason(conditions, SpecApplied::UpdateRolledBack));
        let is_write_refused = condition::has_reason(conditions, SpecApplied::WriteRefused);
        match self.status.phase {
            Some(SeiNodePhase::Terminating) if is_write_refused => {
                let message = self.message_of::<SpecApplied>();
                self.set(Ready::Terminating, &message);
            }
            Some(SeiNodePhase::Terminating) => self.set(Ready::Terminating, "the node is being deleted"),
            _ if findings.claim_termination.is_some() => {
                self.set(
                    Ready::DataVolumeTerminating,
                    findings.claim_termination.as_deref().unwrap_or_default(),
                );
            }
            _ if findings.is_data_volume_missing => self.set(Ready::DataVolumeMissing, &claim::loss(node)),
            _ if is_spec_unapplied => {
                let message = self.message_of::<SpecApplied>();
                self.set(Ready::SpecNotApplied, &message);
            }
            None | Some(SeiNodePhase::Pending | SeiNodePhase::Initializing) => {
                self.set(Ready::Initializing, &progress)
            }
            Some(SeiNodePhase::Failed) => self.set(Ready::PlanFailed, &failed.unwrap_or_default()),
            Some(SeiNodePhase::Running) if is_edit_paused => {
                let message = "the node runs its previous configuration: set spec.paused to false to apply the last edit";
                self.set(Ready::EditPaused, message);
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
                    let is_container_ready = pod.is_some_and(|pod| pod.is_ready(container::SEID));
                    self.seid_ready(is_container_ready, &observed.sidecar.chain);
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

/// Returns the message of a node that waits for its turn. Large positions are rounded up: each change is a write.
fn queue_message(drift: &Drift, queued: &Queued) -> String {
    let position = match queued.position {
        exact @ ..=4 => format!("position {exact}"),
        more => format!("position {} or better", more.next_power_of_two()),
    };
    format!("{position} in the queue for: {}; {}", drift.phrases.join("; "), queued.reason)
}

/// Returns the message of a node whose last update failed and is undone.
fn rollback_message(name: &str, status: &SeiNodeStatus) -> Option<String> {
    let failed = status.last_failed_plan.as_ref().filter(|failed| failed.rolled_back)?;
    let is_done =
        status.plan.as_ref().is_none_or(|plan| plan.id != failed.id && plan.phase == PlanPhase::Complete);
    let state = if is_done { "the node runs" } else { "the node is being returned to" };
    Some(format!(
        "the update failed at step {} ({}): {}; {state} its previous configuration: edit the spec, or try again with `{}`",
        failed.step,
        failed.task.task_type,
        failed.task.error,
        retry_command(name)
    ))
}

/// Returns the command that tries a failed update again.
pub(super) fn retry_command(name: &str) -> String {
    format!("kubectl annotate --overwrite seinode {name} {}=$(date +%s)", annotation::RETRY)
}
