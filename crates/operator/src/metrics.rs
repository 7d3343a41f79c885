//! Metrics of nodes, with the names that dashboards of the upstream controller use.
//!
//! Gauges are computed from the watched nodes at each scrape: they cannot outlive a node or drift from it. Counters and
//! histograms are updated after a status is stored.

mod collector;

use std::sync::Arc;

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
use runtime::Key;
use runtime::metrics::Metrics;

use self::collector::NodeCollector;
use crate::chain_progress::ChainHeights;

/// The name of the node controller in metrics.
pub const CONTROLLER: &str = "seinode";

runtime::catalog! {
    /// All metrics of the operator, in the order of the documentation.
    ALL;
    PHASE: Gauge "sei_controller_seinode_phase" ["namespace", "name", "phase"] "Phase of a node: 1 for the current phase, 0 for all others";
    TRANSITIONS: Counter "sei_controller_seinode_phase_transitions_total" ["controller", "namespace", "from_phase", "to_phase"] "Phase transitions of nodes";
    PHASE_TIME: Histogram "sei_controller_seinode_phase_duration_seconds" ["namespace", "chain_id", "phase"] "Time that nodes spent in a phase, recorded when they leave it";
    PLAN_TIME: Histogram "sei_controller_plan_duration_seconds" ["controller", "namespace", "plan_type", "outcome"] "Time from the creation of a plan to its end, by outcome: complete, failed or superseded";
    PLAN_ACTIVE: Gauge "sei_controller_plan_active" ["controller", "namespace"] "Nodes with an active plan";
    PROBES: Counter "sei_controller_seinode_sidecar_health_probes_total" ["controller", "namespace", "outcome"] "Health probes of sidecars, by outcome: ready, not_ready or unreachable";
    SIDECAR_READY: Gauge "sei_controller_seinode_sidecar_ready" ["namespace", "name"] "1 if the sidecar of a node is ready, 0 otherwise";
    ERRORS: Counter "sei_controller_reconcile_errors_total" ["controller", "namespace"] "Reconciles of nodes that failed";
    HEIGHT: Gauge "outrigger_node_height" ["namespace", "name"] "Height of the latest block that a node has executed; absent if it was not observed for two minutes";
    HEIGHT_LAG: Gauge "outrigger_node_height_lag" ["namespace", "name"] "Blocks between a node and the highest node of its chain that this operator observes";
    PEERS: Gauge "outrigger_node_peers" ["namespace", "name"] "Connected peers of a node";
    CERTIFICATE_EXPIRATION: Gauge "outrigger_certificate_expiration_timestamp_seconds" ["namespace", "name"] "Unix time at which the certificate that a node uses for its sidecar API expires; absent without TLS";
    CONDITIONS: Gauge "outrigger_conditions" ["kind", "namespace", "type", "status", "reason"] "Objects by condition type, status and reason";
}

/// Histogram buckets in seconds, from a warm start to a long snapshot restore.
const PHASE_BUCKETS: [f64; 10] = [10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1200.0, 1800.0, 3600.0];

/// Histogram buckets of plans in seconds.
const PLAN_BUCKETS: [f64; 9] = [1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];

/// All phases of a node.
const PHASES: [SeiNodePhase; 5] = [
    SeiNodePhase::Pending,
    SeiNodePhase::Initializing,
    SeiNodePhase::Running,
    SeiNodePhase::Failed,
    SeiNodePhase::Terminating,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TransitionLabels {
    controller: &'static str,
    namespace: String,
    from_phase: &'static str,
    to_phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabels {
    namespace: String,
    chain_id: String,
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PlanLabels {
    controller: &'static str,
    namespace: String,
    plan_type: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProbeLabels {
    controller: &'static str,
    namespace: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    controller: &'static str,
    namespace: String,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Metrics of nodes.
#[derive(Clone, Debug)]
pub struct NodeMetrics {
    transitions: Family<TransitionLabels, Counter>,
    phase_time: Histograms<PhaseLabels>,
    plan_time: Histograms<PlanLabels>,
    probes: Family<ProbeLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
}

impl NodeMetrics {
    /// Creates and registers the metrics. `for_each_node` visits every watched node; `certificate_expiry` returns when the certificate
    /// in a Secret expires.
    #[must_use]
    pub(crate) fn new(
        metrics: &Metrics,
        for_each_node: impl Fn(&mut dyn FnMut(&SeiNode)) + Send + Sync + 'static,
        heights: Arc<ChainHeights>,
        certificate_expiry: impl Fn(&Key) -> Option<i64> + Send + Sync + 'static,
    ) -> Self {
        let node_metrics = Self {
            transitions: Family::default(),
            phase_time: Family::new_with_constructor(|| Histogram::new(PHASE_BUCKETS)),
            plan_time: Family::new_with_constructor(|| Histogram::new(PLAN_BUCKETS)),
            probes: Family::default(),
            errors: Family::default(),
        };
        metrics.register(&TRANSITIONS, node_metrics.transitions.clone());
        metrics.register(&PHASE_TIME, node_metrics.phase_time.clone());
        metrics.register(&PLAN_TIME, node_metrics.plan_time.clone());
        metrics.register(&PROBES, node_metrics.probes.clone());
        metrics.register(&ERRORS, node_metrics.errors.clone());
        metrics.register_collector(NodeCollector::new(for_each_node, heights, certificate_expiry));
        node_metrics
    }

    /// Records the change from the previous status to the stored one.
    pub fn record_status_change(
        &self,
        node: &SeiNode,
        before: &SeiNodeStatus,
        after: &SeiNodeStatus,
        now: &Time,
    ) {
        let namespace = node.metadata.namespace.clone().unwrap_or_default();
        if before.phase != after.phase {
            self.transitions
                .get_or_create(&TransitionLabels {
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
                    .get_or_create(&PhaseLabels { namespace: namespace.clone(), chain_id, phase })
                    .observe(seconds(since, now));
            }
        }
        if let Some((plan, outcome)) = ended_plan(before, after)
            && let Some(since) = &plan.created_at
        {
            let plan_type = plan_type(plan);
            self.plan_time
                .get_or_create(&PlanLabels { controller: CONTROLLER, namespace, plan_type, outcome })
                .observe(seconds(since, now));
        }
    }

    /// Records a health probe. A pending probe counts when its result is there.
    pub fn record_probe(&self, namespace: &str, health: &Health) {
        let outcome = match health {
            Health::Unknown => return,
            Health::Ready => "ready",
            Health::NotReady => "not_ready",
            Health::Unreachable(_) => "unreachable",
        };
        let namespace = namespace.to_owned();
        self.probes.get_or_create(&ProbeLabels { controller: CONTROLLER, namespace, outcome }).inc();
    }

    /// Records a failed reconcile of a node.
    pub fn record_reconcile_error(&self, namespace: &str) {
        let namespace = namespace.to_owned();
        self.errors.get_or_create(&ErrorLabels { controller: CONTROLLER, namespace }).inc();
    }
}

/// Returns the plan that is no longer active, and its outcome.
fn ended_plan<'a>(before: &'a SeiNodeStatus, after: &SeiNodeStatus) -> Option<(&'a TaskPlan, &'static str)> {
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

/// Returns the type of a plan. It is derived from the tasks, since plans of the upstream controller do not store it.
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

/// Returns the seconds between two times. A clock that was set back does not make them negative.
fn seconds(since: &Time, now: &Time) -> f64 {
    now.0.duration_since(since.0).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests;
