//! Handle of an injected fault.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::exchange::Shared;
use super::matcher::{RequestMatcher, Times};
use super::rules::{Effect, Rule};
use crate::error::{Error, Result};

/// An injected fault. It stays in force until [`remove`](Self::remove) or the end of the proxy, even if this handle is
/// dropped.
pub struct Injection {
    shared: Arc<Shared>,
    rule: Arc<Rule>,
}

impl Injection {
    pub(super) fn new(shared: &Arc<Shared>, matching: RequestMatcher, times: Times, effect: Effect) -> Self {
        let rule = shared.rules.add(matching, times, effect);
        shared.journal.fault(rule.id, rule.name(), &rule.matching, true);
        Self { shared: shared.clone(), rule }
    }

    /// Returns how often the fault took effect: on requests; for dropped events, on events; for a black hole, on
    /// watches; for a frozen view, on reads and events. A kill counts when the process is gone, a lost response
    /// when the API server has sent it, a delay when it starts.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.rule.progress().borrow().fired
    }

    /// Waits until the fault took effect at least `count` times. Fails on timeout, or if the fault itself failed.
    pub async fn wait_fired(&self, count: u64, limit: Duration) -> Result<()> {
        let mut progress = self.rule.progress();
        let reached = progress.wait_for(|progress| progress.fired >= count || progress.failure.is_some());
        // Never closed: the rule owns the sender.
        if let Ok(Ok(progress_now)) = timeout(limit, reached).await {
            return match &progress_now.failure {
                None => Ok(()),
                Some(failure) => Err(Error::Other(failure.clone())),
            };
        }
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
        Err(Error::Deadline {
            what: format!("fault {:?} {times}", self.rule.name()),
            limit,
            last: format!("it took effect {} times", self.fired()),
        })
    }

    /// Removes the fault.
    pub fn remove(&self) {
        if self.shared.rules.lift(&self.rule) {
            self.shared.journal.fault(self.rule.id, self.rule.name(), &self.rule.matching, false);
        }
    }
}
