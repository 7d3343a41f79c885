//! What is said of a node: its conditions, each always there, each with the reason and what to do.

use api::SeiNode;
use api::condition::{
    self, ImportPVCReady, NodeKeyReady, NodeUpdateInProgress, OperatorKeyringReady, Paused, Ready, Reason,
    SidecarReady, SigningKeyReady, SpecApplied,
};
use api::names::object;
use api::sei_node::{PlanKind, PlanPhase, SeiNodePhase, SeiNodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::check::{claim, tls_secret};
use super::drift::{self, Drift};
use super::kind::Kind;
use super::world::{Health, Refusal, World};
use super::{observe, unapplied};

/// What the decision found, beside what is in the status.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// What an update brings about, or would.
    pub(super) update: Option<Drift>,
    /// What would be done if the node were not paused.
    pub(super) pending: Vec<String>,
    /// The data volume of a node that signs is gone.
    pub(super) volume_is_missing: bool,
}

/// Writes every condition.
pub(super) fn write(
    node: &SeiNode,
    kind: Option<Kind<'_>>,
    status: &mut SeiNodeStatus,
    world: &World,
    found: &Found,
    now: &Time,
) {
    let mut say = Say { status, generation: node.metadata.generation.unwrap_or_default(), now };
    say.paused(node, found);
    say.update(found);
    say.sidecar(world);
    say.spec(node, kind, world);
    if let Some(kind) = kind {
        say.given(node, kind);
    }
    let tls = tls_secret::check(node, &drift::tls(node), world);
    say.set(tls.reason, &tls.message);
    say.ready(node, world, found);
}

struct Say<'a> {
    status: &'a mut SeiNodeStatus,
    generation: i64,
    now: &'a Time,
}

impl Say<'_> {
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

    fn paused(&mut self, node: &SeiNode, found: &Found) {
        if !node.spec.paused {
            return self.set(Paused::NotPaused, "spec.paused is false");
        }
        let pending = if found.pending.is_empty() { "nothing".into() } else { found.pending.join("; ") };
        self.set(Paused::Paused, &format!("spec.paused is true; to be done otherwise: {pending}"));
    }

    fn update(&mut self, found: &Found) {
        let plan = self.status.plan.as_ref().filter(|plan| plan.kind == Some(PlanKind::NodeUpdate));
        let Some(plan) = plan else {
            // Another plan since then does not change how the last update ended.
            if !self.has::<NodeUpdateInProgress>()
                || condition::is_true::<NodeUpdateInProgress>(&self.status.conditions)
            {
                self.set(NodeUpdateInProgress::NoUpdate, "nothing differs from the spec");
            }
            return;
        };
        let id = plan.id.clone();
        match plan.phase {
            PlanPhase::Active => {
                let update = found.update.clone().unwrap_or_default();
                let others =
                    update.parts != drift::Parts { tls: update.parts.tls, ..drift::Parts::default() };
                let reason = match (update.parts.tls, others) {
                    (true, false) => NodeUpdateInProgress::TLSToggleStarted,
                    (true, true) => NodeUpdateInProgress::UpdateAndTLSToggleStarted,
                    (false, _) => NodeUpdateInProgress::UpdateStarted,
                };
                // Once a part is done it differs no more; what the plan was made for stays said.
                let same = condition::holds(&self.status.conditions, reason)
                    && self.message_of::<NodeUpdateInProgress>().starts_with(&format!("plan {id}"));
                if !same {
                    self.set(reason, &format!("plan {id}: {}", update.phrases.join("; ")));
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

    fn sidecar(&mut self, world: &World) {
        let running = self.status.phase == Some(SeiNodePhase::Running);
        match &world.sidecar.health {
            Health::Ready => self.set(SidecarReady::Ready, "the sidecar lets seid run"),
            Health::NotReady => {
                self.set(SidecarReady::NotReady, "the sidecar waits to be told that seid may start");
            }
            Health::Unreachable(why) => self.set(SidecarReady::Unreachable, why),
            Health::Unasked if !self.has::<SidecarReady>() => {
                self.set(SidecarReady::NotProbed, "the node is not set up yet");
            }
            Health::Unasked if running && world.pods.is_empty() => {
                self.set(SidecarReady::Unreachable, "its pod is not there");
            }
            // The answer is still to come.
            Health::Unasked => {}
        }
    }

    fn spec(&mut self, node: &SeiNode, kind: Option<Kind<'_>>, world: &World) {
        let Some(kind) = kind else {
            if node.metadata.deletion_timestamp.is_none() {
                let message = "spec has none of fullNode, archive, replayer and validator: set one";
                self.set(SpecApplied::SpecInvalid, message);
            } else if !self.has::<SpecApplied>() {
                self.set(SpecApplied::NotEvaluated, "the node is being deleted");
            }
            return;
        };
        let refused = |wanted: fn(&Refusal) -> Option<&String>| {
            let all = world.refused.iter();
            all.filter_map(|(kind, refusal)| Some(format!("{kind}: {}", wanted(refusal)?))).next()
        };
        let rejected = refused(|refusal| match refusal {
            Refusal::Rejected(why) => Some(why),
            _ => None,
        });
        let conflict = refused(|refusal| match refusal {
            Refusal::Conflict(why) => Some(why),
            _ => None,
        });
        let fields = unapplied::fields(node, kind, self.status, world);
        match (rejected, conflict) {
            (Some(why), _) => self.set(SpecApplied::SpecInvalid, &why),
            (None, Some(why)) => self.set(SpecApplied::ApplyConflict, &why),
            _ if !fields.is_empty() => self.set(SpecApplied::FieldsNotApplied, &fields.join("; ")),
            _ => self.set(SpecApplied::AllApplied, "every field has its effect"),
        }
    }

    /// Conditions about what is given to the node: set when it was looked at, and there from the beginning.
    fn given(&mut self, node: &SeiNode, kind: Kind<'_>) {
        let keys = kind.keys();
        let not_yet = "it was not looked at yet";
        if claim::imported(node).is_some() && !self.has::<ImportPVCReady>() {
            self.set(ImportPVCReady::PVCNotReady, not_yet);
        }
        if keys.signing_key.is_some() && !self.has::<SigningKeyReady>() {
            self.set(SigningKeyReady::SigningKeyNotReady, not_yet);
        }
        if keys.node_key.is_some() && !self.has::<NodeKeyReady>() {
            self.set(NodeKeyReady::NodeKeyNotReady, not_yet);
        }
        if keys.operator_keyring.is_some() && !self.has::<OperatorKeyringReady>() {
            self.set(OperatorKeyringReady::OperatorKeyringNotReady, not_yet);
        }
    }

    fn ready(&mut self, node: &SeiNode, world: &World, found: &Found) {
        let waiting = self.status.waiting_for.as_ref().map(|waiting| {
            let message = waiting.message.as_deref().unwrap_or_default();
            format!("waiting for {} {}: {message}", waiting.what, waiting.name)
        });
        let step = self.status.plan_step.clone().unwrap_or_default();
        let on = waiting.unwrap_or_else(|| format!("step {step}"));
        let active = self.status.plan.as_ref().filter(|plan| plan.phase == PlanPhase::Active);
        let updating = active.is_some_and(|plan| plan.kind == Some(PlanKind::NodeUpdate));
        let failed = self.status.last_failed_plan.as_ref().map(|failed| {
            let again =
                if failed.attempts > 1 { format!(" ({} times)", failed.attempts) } else { String::new() };
            format!("step {} ({}) failed{again}: {}", failed.step, failed.task.task_type, failed.task.error)
        });
        let pod = observe::pod(node, world);
        let trouble = pod.and_then(|pod| pod.trouble().or_else(|| pod.relapse(self.now)));
        let conditions = &self.status.conditions;
        let unfit = condition::holds(conditions, SpecApplied::SpecInvalid)
            || condition::holds(conditions, SpecApplied::ApplyConflict);
        match self.status.phase {
            Some(SeiNodePhase::Terminating) => self.set(Ready::Terminating, "the node is being deleted"),
            _ if unfit => {
                let message = self.message_of::<SpecApplied>();
                self.set(Ready::SpecNotApplied, &message);
            }
            None | Some(SeiNodePhase::Pending | SeiNodePhase::Initializing) => {
                self.set(Ready::Initializing, &on)
            }
            Some(SeiNodePhase::Failed) => self.set(Ready::PlanFailed, &failed.unwrap_or_default()),
            Some(SeiNodePhase::Running) if found.volume_is_missing => {
                let claim = object::data_claim(node.metadata.name.as_deref().unwrap_or_default());
                self.set(Ready::DataVolumeMissing, &format!("PersistentVolumeClaim {claim} is gone"));
            }
            Some(SeiNodePhase::Running) if updating => self.set(Ready::Updating, &on),
            Some(SeiNodePhase::Running) if found.update.is_some() && failed.is_some() => {
                self.set(Ready::PlanFailed, &failed.unwrap_or_default());
            }
            Some(SeiNodePhase::Running) => match (trouble, &world.sidecar.health) {
                (Some(trouble), _) => self.set(Ready::PodFailing, &trouble),
                (None, Health::Ready) => self.set(Ready::NodeReady, "the node runs as its spec says"),
                (None, Health::NotReady) => {
                    self.set(Ready::SidecarNotReady, "the sidecar waits to be told that seid may start");
                }
                (None, Health::Unreachable(why)) => self.set(Ready::SidecarUnreachable, why),
                (None, Health::Unasked) if !self.has::<Ready>() || world.pods.is_empty() => {
                    self.set(Ready::SidecarUnreachable, "its pod is not there");
                }
                // The answer is still to come.
                (None, Health::Unasked) => {}
            },
        }
    }
}
