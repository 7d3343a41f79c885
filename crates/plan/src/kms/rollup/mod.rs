//! What the reports of all nodes add up to. `decide` is given the reports as they stand, who is expected to report, what was
//! remembered of earlier looks, and the time; it gives conditions, entries to remove, and when to look again.
//!
//! What is remembered follows from reports alone, and is lost without harm.

mod agreement;
mod cleanup;
mod conditions;
mod freshness;
mod input;
mod memory;
mod message;
mod progress;
mod subject;

#[cfg(test)]
mod tests;

use std::time::Duration;

use api::condition::{KMSPluginsAvailable, KMSPluginsDegraded, KMSPluginsProgressing, KMSRemoteKeyConverged};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use self::cleanup::Removal;
pub use self::conditions::{TYPES, record};
pub use self::input::{Expected, ExpectedNode, Form, Now, Report, Reports, Rules, Unreadable};
pub use self::memory::Memory;
pub use self::subject::{State, Subject};

/// What is to be done, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What follows from the reports; nothing where no plugin is deployed: conditions of it are taken away then.
    pub verdict: Option<Verdict>,
    /// Entries that nobody needs and nobody writes any more.
    pub removals: Vec<Removal>,
    /// What the next look has to know.
    pub memory: Memory,
    /// The moment of the steady clock from which on the same reports may mean something else.
    pub look_at: Option<Duration>,
    /// Each plugin that is expected to be reported, and how it is.
    pub subjects: Vec<Subject>,
}

/// The conditions, each with its reason and what it says to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether a plugin is sick.
    pub degraded: (KMSPluginsDegraded, String),
    /// Whether new data can be encrypted.
    pub available: (KMSPluginsAvailable, String),
    /// Whether nodes are moving to another key.
    pub progressing: (KMSPluginsProgressing, String),
    /// Whether all nodes encrypt with one key of the KMS.
    pub converged: (KMSRemoteKeyConverged, String),
}

/// Decides. `stored` are the conditions as they stand: from them it is known since when things are as they are, also by a
/// process that has just begun to look.
#[must_use]
pub fn decide(
    rules: &Rules,
    reports: &Reports,
    expected: &Expected,
    stored: &[Condition],
    mut memory: Memory,
    now: Now,
) -> Decision {
    memory.look(reports, now);
    let mut due = memory.flaps_end();
    let recalled = if memory.has_looked() { Vec::new() } else { message::recall(stored) };
    let subjects = subject::evaluate(rules, reports, expected, &recalled, &mut memory, now, &mut due);
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
    memory.looked();
    let look_at = due.into_iter().filter(|at| *at > now.steady).min();
    Decision { verdict, removals, memory, look_at, subjects }
}
