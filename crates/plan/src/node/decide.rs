//! The decision about a node: one pure function of what is wanted, what was stored, what was seen, and the time.

use std::time::Duration;

use api::SeiNode;
use api::names::finalizer;
use api::sei_node::{PlanKind, PlanPhase, SeiNodePhase, SeiNodeStatus, TaskPlan};
use api::sidecar_wire::TaskState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::action::Action;
use super::advance::{self, is_setup, set_phase};
use super::check::claim;
use super::compose::{self, Composer};
use super::conditions::{self, Found};
use super::drift::{self, Drift};
use super::kind::Kind;
use super::step::{Look, Scene, ended};
use super::task::Step;
use super::world::{Health, TaskSight, World};
use super::{mirrors, needs, repair};
use crate::platform::Platform;

/// How often a node at rest is looked at, for what was missed.
const AT_REST: Duration = Duration::from_secs(30);

/// The least time between two plans that let seid start: one that did not help is not repeated at once.
const BETWEEN_MARK_READY: Duration = Duration::from_secs(30);

/// The least time between two updates to the same spec.
const BETWEEN_UPDATES: Duration = Duration::from_secs(60);

/// The first wait before a failed update is tried again, and the longest.
const FIRST_RETRY: Duration = Duration::from_secs(30);
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// What is to be done about a node, and what is to be said of it.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The status that is to be stored.
    pub status: SeiNodeStatus,
    /// What is to be done now. When there is nothing, the pass is over.
    pub actions: Vec<Action>,
    /// What was damaged and is put back by these actions, one sentence each.
    pub repaired: Vec<String>,
    /// Take away the finalizer that the operator before us left.
    pub drop_finalizer: bool,
    /// When to look again at the latest.
    pub look_again: Option<Duration>,
}

/// Decides about a node. `node` is as it is stored; `status` is the newest one, which may have come further in this pass.
/// `fresh` becomes the id of a plan, if one is made.
#[must_use]
pub fn decide(
    node: &SeiNode,
    status: SeiNodeStatus,
    platform: &Platform,
    world: &World,
    now: &Time,
    fresh: &str,
) -> Decision {
    let mut decision = Decision { status, look_again: Some(AT_REST), ..Decision::default() };
    let status = &mut decision.status;
    status.observed_generation = node.metadata.generation;
    if node.metadata.deletion_timestamp.is_some() {
        set_phase(status, SeiNodePhase::Terminating, now);
        status.waiting_for = None;
        conditions::write(node, None, status, world, &Found::default(), now);
        let ours = |name: &String| name == finalizer::NODE;
        decision.drop_finalizer = node.metadata.finalizers.iter().flatten().any(ours);
        decision.look_again = None;
        return decision;
    }
    let Some(kind) = Kind::of(&node.spec) else {
        conditions::write(node, None, status, world, &Found::default(), now);
        return decision;
    };
    let mut peers: Vec<String> = world.label_peers.values().flatten().cloned().collect();
    peers.sort();
    peers.dedup();
    status.resolved_peers = peers;
    let case = Case { node, kind, platform, world, now, fresh };
    let mut found = Found::default();
    if node.spec.paused {
        found.pending = case.pending(status);
    } else {
        case.go_on(&mut decision, &mut found);
    }
    conditions::write(node, Some(kind), &mut decision.status, world, &found, now);
    decision
}

/// Everything that a decision is made from, but the status.
#[derive(Clone, Copy)]
struct Case<'a> {
    node: &'a SeiNode,
    kind: Kind<'a>,
    platform: &'a Platform,
    world: &'a World,
    now: &'a Time,
    fresh: &'a str,
}

impl Case<'_> {
    fn go_on(self, decision: &mut Decision, found: &mut Found) {
        if self.has_just_ended(&decision.status) {
            // Another plan in the same pass would take its place before anybody could see how it ended.
            found.update = Some(self.update_of(&decision.status)).filter(|update| !update.parts.is_empty());
            decision.look_again = Some(Duration::ZERO);
            return;
        }
        let active = decision.status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Active);
        if active {
            self.supersede(&mut decision.status, found);
        } else {
            match decision.status.phase {
                None | Some(SeiNodePhase::Pending | SeiNodePhase::Initializing) => {
                    self.set_up(&mut decision.status);
                }
                Some(SeiNodePhase::Failed) => self.set_up_again(&mut decision.status),
                Some(SeiNodePhase::Running) => self.keep(decision, found),
                Some(SeiNodePhase::Terminating) => {}
            }
        }
        let plan = decision.status.plan.as_ref().filter(|plan| plan.phase == PlanPhase::Active);
        let Some(plan) = plan else { return };
        // A plan that is not stored yet is only stored in this pass: what nobody could see must not be done.
        let stored = self.node.status.as_ref().and_then(|status| status.plan.as_ref());
        if stored.is_none_or(|stored| stored.id != plan.id) {
            decision.look_again = Some(Duration::ZERO);
            return;
        }
        let scene = self.scene();
        let progress = advance::advance(scene, &mut decision.status, self.now);
        decision.actions = progress.actions;
        decision.look_again = progress.look_again.or(Some(AT_REST));
        let done = decision.status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Complete);
        if done && self.drift(&decision.status).parts.is_empty() {
            decision.status.reconciled_generation = self.node.metadata.generation;
        }
    }

    /// Whether the plan has ended in this pass, and is not stored so yet.
    fn has_just_ended(self, status: &SeiNodeStatus) -> bool {
        let stored = self.node.status.as_ref().and_then(|status| status.plan.as_ref());
        let stored = stored.filter(|stored| stored.phase == PlanPhase::Active);
        let now = status.plan.as_ref().filter(|plan| plan.phase != PlanPhase::Active);
        stored.zip(now).is_some_and(|(stored, now)| stored.id == now.id)
    }

    /// Replaces an active plan whose spec has changed since, unless the same would be done, or the sidecar is at work.
    fn supersede(self, status: &mut SeiNodeStatus, found: &mut Found) {
        let Some(plan) = status.plan.as_ref() else { return };
        if plan.kind == Some(PlanKind::NodeUpdate) {
            found.update = Some(self.update_of(status));
        }
        if plan.generation == self.node.metadata.generation {
            return;
        }
        let next = match plan.kind {
            Some(PlanKind::NodeUpdate) => {
                let drift = self.update_of(status);
                self.composer().update(self.fresh, drift.parts, self.now)
            }
            Some(PlanKind::MarkReady) => {
                let drift = self.drift(status);
                if drift.parts.is_empty() {
                    self.composer().mark_ready(self.fresh, self.now)
                } else {
                    found.update = Some(drift.clone());
                    self.composer().update(self.fresh, drift.parts, self.now)
                }
            }
            _ => self.composer().init(self.fresh, self.now),
        };
        if compose::same_work(plan, &next) {
            if let Some(plan) = status.plan.as_mut() {
                plan.generation = self.node.metadata.generation;
            }
        } else if !self.is_at_work(plan) {
            self.begin(status, next);
        }
    }

    /// Whether the sidecar says that it does the task that is on: what it does cannot be taken back, only waited for.
    fn is_at_work(self, plan: &TaskPlan) -> bool {
        if self.bootstrap_is_at_work(plan) {
            return true;
        }
        let Some((step @ Step::Sidecar(_), task)) = needs::current(plan) else { return false };
        match self.world.sidecar.task_of(&task.id) {
            TaskSight::Found(result) => result.status == TaskState::Running && !step.is_only_begun(),
            _ => false,
        }
    }

    /// Whether a bootstrap pod was given its first task and has not ended: its seid may run on the very data that another plan
    /// would have restored anew.
    fn bootstrap_is_at_work(self, plan: &TaskPlan) -> bool {
        let running = self.world.job.as_deref().is_some_and(|job| ended(job).is_none());
        let teardown = plan.tasks.iter().position(|task| task.task_type == Step::TeardownBootstrap.name());
        let before = plan.tasks[..teardown.unwrap_or_default()].iter();
        running && before.filter(|task| task.submitted_at.is_some()).count() > 0
    }

    fn set_up(self, status: &mut SeiNodeStatus) {
        let plan = self.composer().init(self.fresh, self.now);
        self.begin(status, plan);
        set_phase(status, SeiNodePhase::Initializing, self.now);
    }

    /// A node that could not be set up is tried again when its spec has changed, or when what it waited for in vain is there.
    fn set_up_again(self, status: &mut SeiNodeStatus) {
        let plan = status.plan.as_ref();
        let edited = plan.is_none_or(|plan| plan.generation != self.node.metadata.generation);
        if edited || plan.and_then(needs::failed).is_some_and(|step| self.is_cured(step, status)) {
            self.set_up(status);
        }
    }

    fn is_cured(self, step: Step, status: &SeiNodeStatus) -> bool {
        let task = status
            .plan
            .as_ref()
            .and_then(|plan| plan.tasks.get(usize::try_from(plan.failed_task_index?).ok()?).cloned());
        let given = matches!(
            step,
            Step::EnsureDataClaim
                | Step::ValidateSigningKey
                | Step::ValidateNodeKey
                | Step::ValidateOperatorKeyring
                | Step::WaitForTlsSecret
        );
        task.is_some_and(|task| {
            given && matches!(self.scene().look(step, &task, &mut status.clone()), Look::Done | Look::Do(_))
        })
    }

    /// Keeps a running node as it is wanted.
    fn keep(self, decision: &mut Decision, found: &mut Found) {
        let status = &mut decision.status;
        if status.reconciled_generation.is_none() {
            // Set up by the operator before us: as it is now, it counts as it should be.
            status.reconciled_generation = self.node.metadata.generation;
        }
        if status.started_from.is_none() {
            mirrors::stamp_start(status, self.kind);
        }
        if self.world.claim.is_none() && claim::imported(self.node).is_none() {
            if self.kind.signs() {
                found.volume_is_missing = true;
                return;
            }
            self.set_up(status);
            return;
        }
        let update = self.update_of(status);
        if !update.parts.is_empty() {
            let due = self.retry_due(status);
            found.update = Some(update.clone());
            if let Some(due) = due {
                decision.look_again = Some(due);
                return;
            }
            let plan = self.composer().update(self.fresh, update.parts, self.now);
            self.begin(status, plan);
            return;
        }
        if self.world.sidecar.health == Health::NotReady {
            match self.mark_ready_due(status) {
                Some(due) => decision.look_again = Some(due),
                None => {
                    let plan = self.composer().mark_ready(self.fresh, self.now);
                    self.begin(status, plan);
                }
            }
            return;
        }
        status.reconciled_generation = self.node.metadata.generation;
        let repairs = repair::repairs(self.node, status, self.platform, self.world);
        (decision.actions, decision.repaired) = repairs.into_iter().unzip();
        if self.world.sidecar.health != Health::Ready {
            // Its pod is coming up, or in trouble: it is told to go on as soon as it answers.
            decision.look_again = Some(Duration::from_secs(1));
        }
    }

    /// What an update must bring about: what differs, and what an update that did not succeed has left half done.
    fn update_of(self, status: &SeiNodeStatus) -> Drift {
        let mut update = self.drift(status);
        let plan = status.plan.as_ref();
        let unfinished =
            plan.filter(|plan| plan.kind == Some(PlanKind::NodeUpdate) && plan.phase != PlanPhase::Complete);
        if let Some(plan) = unfinished {
            update.parts = update.parts.and(compose::parts_of(plan));
            if update.phrases.is_empty() {
                update.phrases.push("what an update that did not succeed has left".into());
            }
        }
        update
    }

    fn drift(self, status: &SeiNodeStatus) -> Drift {
        drift::find(self.node, self.kind, status, self.platform, self.world)
    }

    /// How long a node must rest before it is updated again. An edit is taken up at once.
    fn retry_due(self, status: &SeiNodeStatus) -> Option<Duration> {
        let plan = status.plan.as_ref().filter(|plan| plan.kind == Some(PlanKind::NodeUpdate))?;
        if plan.generation != self.node.metadata.generation {
            return None;
        }
        // An update that succeeded and left something to do would be followed by the next one at once, for ever.
        if plan.phase == PlanPhase::Complete {
            return self.left(plan.created_at.as_ref()?, BETWEEN_UPDATES);
        }
        let failed = status.last_failed_plan.as_ref().filter(|failed| failed.id == plan.id)?;
        let doublings = u32::try_from(failed.attempts.clamp(1, 10) - 1).unwrap_or_default();
        let rest = FIRST_RETRY.saturating_mul(1 << doublings).min(LONGEST_RETRY);
        self.left(&failed.failed_at, rest)
    }

    fn mark_ready_due(self, status: &SeiNodeStatus) -> Option<Duration> {
        let plan = status.plan.as_ref().filter(|plan| plan.kind == Some(PlanKind::MarkReady))?;
        self.left(plan.created_at.as_ref()?, BETWEEN_MARK_READY)
    }

    /// What is left of a time that began then.
    fn left(self, since: &Time, whole: Duration) -> Option<Duration> {
        let passed = Duration::try_from(self.now.0.duration_since(since.0)).unwrap_or_default();
        whole.checked_sub(passed).filter(|left| !left.is_zero())
    }

    /// What would be done if the node were not paused.
    fn pending(self, status: &SeiNodeStatus) -> Vec<String> {
        match status.phase {
            Some(SeiNodePhase::Running) => self.update_of(status).phrases,
            _ => vec!["setting the node up".into()],
        }
    }

    fn begin(self, status: &mut SeiNodeStatus, plan: TaskPlan) {
        if is_setup(&plan) {
            set_phase(status, SeiNodePhase::Initializing, self.now);
        }
        status.plan_step = Some(format!("1/{}", plan.tasks.len()));
        status.waiting_for = None;
        status.plan = Some(plan);
    }

    fn composer(&self) -> Composer<'_> {
        Composer { node: self.node, kind: self.kind, platform: self.platform, world: self.world }
    }

    fn scene(&self) -> Scene<'_> {
        Scene { node: self.node, kind: self.kind, platform: self.platform, world: self.world }
    }
}
