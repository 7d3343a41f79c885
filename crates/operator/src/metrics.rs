//! Metrics of nodes, under the names that dashboards for the operator before us already use.
//!
//! What is true of a node now is made from the nodes themselves when it is asked for: it cannot outlive them, nor drift away
//! from them. What has happened is counted when it was stored.

mod now;

use api::SeiNode;
use api::names::task;
use api::sei_node::{PlanPhase, SeiNodePhase, SeiNodeStatus, TaskPlan};
use api::sidecar_wire::TaskType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::node::Health;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use runtime::metrics::Metrics;

use self::now::Now;

/// The controller of nodes, as metrics name it.
pub const CONTROLLER: &str = "seinode";

runtime::catalogue! {
    /// Every metric of the operator, in the order of the documentation.
    ALL;
    PHASE: Gauge "sei_controller_seinode_phase" ["namespace", "name", "phase"] "1 for the phase that a node is in, 0 for each other";
    TRANSITIONS: Counter "sei_controller_seinode_phase_transitions_total" ["controller", "namespace", "from_phase", "to_phase"] "Times that nodes went from one phase to another";
    PHASE_TIME: Histogram "sei_controller_seinode_phase_duration_seconds" ["namespace", "chain_id", "phase"] "Time that nodes spent in a phase that they have left";
    PLAN_TIME: Histogram "sei_controller_plan_duration_seconds" ["controller", "namespace", "plan_type", "outcome"] "Time from the making of a plan to its end: complete, failed or superseded by another";
    PLAN_ACTIVE: Gauge "sei_controller_plan_active" ["controller", "namespace"] "Nodes that have a plan which is being carried out";
    PROBES: Counter "sei_controller_seinode_sidecar_health_probes_total" ["controller", "namespace", "outcome"] "Times that sidecars were asked whether they let seid run: ready, not_ready or unreachable";
    SIDECAR_READY: Gauge "sei_controller_seinode_sidecar_ready" ["namespace", "name"] "1 while a node's sidecar lets seid run, else 0";
    ERRORS: Counter "sei_controller_reconcile_errors_total" ["controller", "namespace"] "Passes over a node that ended with an error";
    CONDITIONS: Gauge "outrigger_conditions" ["kind", "namespace", "type", "status", "reason"] "How many objects have a condition with a status and a reason";
}

/// Seconds that a node spends in a phase, from a warm start to a long snapshot.
const PHASE_TIMES: [f64; 10] = [10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1200.0, 1800.0, 3600.0];

/// Seconds that a plan takes.
const PLAN_TIMES: [f64; 9] = [1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];

/// Every phase of a node.
const PHASES: [SeiNodePhase; 5] = [
    SeiNodePhase::Pending,
    SeiNodePhase::Initializing,
    SeiNodePhase::Running,
    SeiNodePhase::Failed,
    SeiNodePhase::Terminating,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTransition {
    controller: &'static str,
    namespace: String,
    from_phase: &'static str,
    to_phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPhase {
    namespace: String,
    chain_id: String,
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPlan {
    controller: &'static str,
    namespace: String,
    plan_type: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    controller: &'static str,
    namespace: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByNamespace {
    controller: &'static str,
    namespace: String,
}

type Times<L> = Family<L, Histogram, fn() -> Histogram>;

/// Metrics of nodes.
#[derive(Clone, Debug)]
pub struct NodeMetrics {
    transitions: Family<ByTransition, Counter>,
    phase_time: Times<ByPhase>,
    plan_time: Times<ByPlan>,
    probes: Family<ByOutcome, Counter>,
    errors: Family<ByNamespace, Counter>,
}

impl NodeMetrics {
    /// Metrics of nodes, all registered. `nodes` shows every node that this process looks after, as it was last seen: none
    /// while another process leads, or each node would be there twice.
    #[must_use]
    pub fn new(metrics: &Metrics, nodes: impl Fn(&mut dyn FnMut(&SeiNode)) + Send + Sync + 'static) -> Self {
        let these = Self {
            transitions: Family::default(),
            phase_time: Family::new_with_constructor(|| Histogram::new(PHASE_TIMES)),
            plan_time: Family::new_with_constructor(|| Histogram::new(PLAN_TIMES)),
            probes: Family::default(),
            errors: Family::default(),
        };
        metrics.register(&TRANSITIONS, these.transitions.clone());
        metrics.register(&PHASE_TIME, these.phase_time.clone());
        metrics.register(&PLAN_TIME, these.plan_time.clone());
        metrics.register(&PROBES, these.probes.clone());
        metrics.register(&ERRORS, these.errors.clone());
        metrics.collect(Now::of(nodes));
        these
    }

    /// A status was stored: what happened between it and the one before.
    pub fn stored(&self, node: &SeiNode, before: &SeiNodeStatus, after: &SeiNodeStatus, now: &Time) {
        let namespace = node.metadata.namespace.clone().unwrap_or_default();
        if before.phase != after.phase {
            self.transitions
                .get_or_create(&ByTransition {
                    controller: CONTROLLER,
                    namespace: namespace.clone(),
                    from_phase: before.phase.map_or("", phase_name),
                    to_phase: after.phase.map_or("", phase_name),
                })
                .inc();
            if let (Some(left), Some(since)) = (before.phase, &before.phase_transition_time) {
                let chain_id = node.spec.chain_id.clone();
                let phase = phase_name(left);
                self.phase_time
                    .get_or_create(&ByPhase { namespace: namespace.clone(), chain_id, phase })
                    .observe(seconds(since, now));
            }
        }
        if let Some((plan, outcome)) = ended(before, after)
            && let Some(since) = &plan.created_at
        {
            let plan_type = plan_type(plan);
            self.plan_time
                .get_or_create(&ByPlan { controller: CONTROLLER, namespace, plan_type, outcome })
                .observe(seconds(since, now));
        }
    }

    /// A sidecar was asked whether it lets seid run. An answer that is still to come counts when it has come.
    pub fn probed(&self, namespace: &str, health: &Health) {
        let outcome = match health {
            Health::Unasked => return,
            Health::Ready => "ready",
            Health::NotReady => "not_ready",
            Health::Unreachable(_) => "unreachable",
        };
        let namespace = namespace.to_owned();
        self.probes.get_or_create(&ByOutcome { controller: CONTROLLER, namespace, outcome }).inc();
    }

    /// A pass over a node of a namespace ended with an error.
    pub fn failed(&self, namespace: &str) {
        let namespace = namespace.to_owned();
        self.errors.get_or_create(&ByNamespace { controller: CONTROLLER, namespace }).inc();
    }
}

/// The plan that was carried out before and is no longer, and how it ended.
fn ended<'a>(before: &'a SeiNodeStatus, after: &SeiNodeStatus) -> Option<(&'a TaskPlan, &'static str)> {
    let plan = before.plan.as_ref().filter(|plan| plan.phase == PlanPhase::Active)?;
    let outcome = match after.plan.as_ref().filter(|now| now.id == plan.id).map(|now| now.phase) {
        Some(PlanPhase::Active) => return None,
        Some(PlanPhase::Complete) => "complete",
        Some(PlanPhase::Failed) => "failed",
        None if after.last_failed_plan.as_ref().is_some_and(|failed| failed.id == plan.id) => "failed",
        None => "superseded",
    };
    Some((plan, outcome))
}

/// What a plan is for, read from its tasks: plans of the operator before us say it in no other way.
fn plan_type(plan: &TaskPlan) -> &'static str {
    let has = |name: &str| plan.tasks.iter().any(|task| task.task_type == name);
    let only_mark_ready = plan.tasks.iter().all(|task| task.task_type == TaskType::MarkReady.as_str());
    match (has(task::node::OBSERVE_IMAGE), has(task::node::OBSERVE_SIDECAR_TLS)) {
        _ if has(task::node::ENSURE_DATA_PVC) => "init",
        (true, true) => "node-update-tls",
        (false, true) => "tls-toggle",
        (false, false) if only_mark_ready => "mark-ready-reapply",
        (_, false) => "node-update",
    }
}

fn phase_name(phase: SeiNodePhase) -> &'static str {
    match phase {
        SeiNodePhase::Pending => "Pending",
        SeiNodePhase::Initializing => "Initializing",
        SeiNodePhase::Running => "Running",
        SeiNodePhase::Failed => "Failed",
        SeiNodePhase::Terminating => "Terminating",
    }
}

/// Between two times; a clock that was set back does not make it negative.
fn seconds(since: &Time, now: &Time) -> f64 {
    now.0.duration_since(since.0).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests;
