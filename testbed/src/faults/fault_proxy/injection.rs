//! The handle of an injected fault.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::exchange::Shared;
use super::matching::{Matching, Times};
use super::rules::{Effect, Rule};
use crate::error::{Error, Result};

/// An injected fault. It is in force until it is lifted or its proxy ends, also when this handle is dropped.
pub struct Injection {
    shared: Arc<Shared>,
    rule: Arc<Rule>,
}

impl Injection {
    pub(super) fn new(shared: &Arc<Shared>, matching: Matching, times: Times, effect: Effect) -> Self {
        let rule = shared.rules.add(matching, times, effect);
        shared.journal.fault(rule.id, rule.name(), &rule.matching, true);
        Self { shared: shared.clone(), rule }
    }

    /// How often it has had its effect: on requests; on events for dropped ones; on watches for a black hole; on reads
    /// and events for a frozen view. A killed process counts when it is gone, a lost answer when the API server has
    /// given it, a delay when it begins.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.rule.progress().borrow().fired
    }

    /// Waits until it has had its effect at least so often, and fails when that does not happen in time or cannot
    /// happen any more.
    pub async fn wait_fired(&self, count: u64, limit: Duration) -> Result<()> {
        let mut progress = self.rule.progress();
        let reached = progress.wait_for(|progress| progress.fired >= count || progress.failure.is_some());
        // Never closed: we hold the other end.
        if let Ok(Ok(seen)) = timeout(limit, reached).await {
            return match &seen.failure {
                None => Ok(()),
                Some(failure) => Err(Error::Refused(failure.clone())),
            };
        }
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
        Err(Error::Deadline {
            what: format!("the fault {:?} {times}", self.rule.name()),
            limit,
            last: format!("it happened {} times", self.fired()),
        })
    }

    /// Takes it out of force.
    pub fn lift(&self) {
        if self.shared.rules.lift(&self.rule) {
            self.shared.journal.fault(self.rule.id, self.rule.name(), &self.rule.matching, false);
        }
    }
}
