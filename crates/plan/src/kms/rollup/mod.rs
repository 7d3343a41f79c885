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

pub use self::cleanup::Removal;
pub use self::conditions::{TYPES, record};
pub use self::input::{Expected, ExpectedNode, Form, Now, Report, Reports, Rules, Unreadable};
pub use self::plugin_state::{State, Subject};
pub use self::state::Memory;

/// Result of one reconcile.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Conditions; `None` if no plugin is deployed, in which case the conditions are removed.
    pub verdict: Option<Verdict>,
    /// Obsolete reports to remove.
    pub removals: Vec<Removal>,
    /// State for the next reconcile.
    pub memory: Memory,
    /// Monotonic time at which the same reports may lead to a different result.
    pub look_at: Option<Duration>,
    /// State of each expected plugin.
    pub subjects: Vec<Subject>,
}

/// Conditions with reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
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
    rules: &Rules,
    reports: &Reports,
    expected: &Expected,
    stored: &[Condition],
    mut memory: Memory,
    now: Now,
) -> Decision {
    memory.observe(reports, now);
    let mut due = memory.flapping_deadlines();
    let stored_states = if memory.has_observed() { Vec::new() } else { message::parse_stored(stored) };
    let subjects =
        plugin_state::evaluate(rules, reports, expected, &stored_states, &mut memory, now, &mut due);
    let removals = cleanup::removals(rules, reports, expected, &memory, now, &mut due);
    let verdict = if expected.kms {
        Some(Verdict {
            degraded: conditions::degraded(rules, &subjects),
            available: conditions::available(&subjects),
            progressing: progress::progressing(expected, &subjects),
            converged: agreement::converged(&subjects, stored, &mut memory, now, &mut due),
        })
    } else {
        memory.agreed = None;
        None
    };
    memory.mark_observed();
    let look_at = due.into_iter().filter(|at| *at > now.steady).min();
    Decision { verdict, removals, memory, look_at, subjects }
}
