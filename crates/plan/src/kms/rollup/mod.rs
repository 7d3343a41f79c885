//! Aggregates the reports of all nodes. `decide` takes the current reports, the expected reporters, the state of earlier reconciles
//! and the time, and returns conditions, reports to remove and the time of the next reconcile.
//!
//! The state derives from reports only, so losing it in a restart is harmless.

mod agreement;
mod cleanup;
mod conditions;
mod freshness;
mod input;
mod message;
mod plugin_state;
mod progress;
mod state;

#[cfg(test)]
mod tests;

use std::time::Duration;

use api::condition::{KMSPluginsAvailable, KMSPluginsDegraded, KMSPluginsProgressing, KMSRemoteKeyConverged};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use self::cleanup::ReportRemoval;
pub use self::conditions::{CONDITION_TYPES, update_conditions};
pub use self::input::{
    ClockReading, ExpectedNode, ExpectedReporters, MalformedReport, PluginReport, ReportFormat, Reports,
    RollupRules,
};
pub use self::plugin_state::{PluginObservation, PluginState};
pub use self::state::RollupState;

/// Result of one reconcile.
#[derive(Clone, Debug, PartialEq)]
pub struct RollupDecision {
    /// Conditions; `None` if no plugin is deployed, in which case the conditions are removed.
    pub conditions: Option<KmsConditions>,
    /// Obsolete reports to remove.
    pub removals: Vec<ReportRemoval>,
    /// State for the next reconcile.
    pub state: RollupState,
    /// Monotonic time at which the same reports may lead to a different result.
    pub requeue_at: Option<Duration>,
    /// State of each expected plugin.
    pub plugins: Vec<PluginObservation>,
}

/// Conditions with reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KmsConditions {
    /// Whether a plugin is unhealthy.
    pub degraded: (KMSPluginsDegraded, String),
    /// Whether new data can be encrypted.
    pub available: (KMSPluginsAvailable, String),
    /// Whether nodes are switching to another key.
    pub progressing: (KMSPluginsProgressing, String),
    /// Whether all nodes encrypt with the same KMS key.
    pub converged: (KMSRemoteKeyConverged, String),
}

/// Computes conditions and removals. `stored` are the current conditions, from which a restarted process learns since when each plugin
/// has been in its state.
#[must_use]
pub fn decide(
    rules: &RollupRules,
    reports: &Reports,
    expected: &ExpectedReporters,
    stored: &[Condition],
    mut state: RollupState,
    now: ClockReading,
) -> RollupDecision {
    state.observe(reports, now);
    let mut due = state.flapping_deadlines();
    let stored_states = if state.has_observed() { Vec::new() } else { message::parse_stored(stored) };
    let plugins = plugin_state::evaluate(rules, reports, expected, &stored_states, &mut state, now, &mut due);
    let removals = cleanup::removals(rules, reports, expected, &state, now, &mut due);
    let conditions = if expected.kms {
        Some(KmsConditions {
            degraded: conditions::degraded(rules, &plugins),
            available: conditions::available(&plugins),
            progressing: progress::progressing(expected, &plugins),
            converged: agreement::converged(&plugins, stored, &mut state, now, &mut due),
        })
    } else {
        state.agreed = None;
        None
    };
    state.mark_observed();
    let requeue_at = due.into_iter().filter(|at| *at > now.monotonic).min();
    RollupDecision { conditions, removals, state, requeue_at, plugins }
}
