//! Failed health probes of sidecars that were ready. A single late answer, in particular on a busy machine, must not change `Ready`: that
//! would cost two status writes and an alert. The failures are kept in memory only, since an answer ends them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use plan::node::Health;
use runtime::Key;
use runtime::sync::lock;

/// How long the probes of a sidecar that was ready must fail before that counts. The next probe follows about this time after the
/// first one that failed.
const COUNTS_AFTER: Duration = Duration::from_secs(1);

/// Since when the probes of each sidecar that was ready fail.
#[derive(Debug, Default)]
pub(crate) struct ProbeFailures(Mutex<HashMap<Key, Instant>>);

impl ProbeFailures {
    /// Records the result of a probe, and returns what a decision is based on: the first failures of a sidecar that the status reports as
    /// ready count as a pending answer. That the sidecar waits for mark-ready is an answer, and counts at once.
    pub(crate) fn record(&self, node: &Key, was_ready: bool, probed: Health, now: Instant) -> Health {
        match probed {
            Health::Unknown => Health::Unknown,
            Health::Unreachable(why) if was_ready => {
                let failing_since = *lock(&self.0).entry(node.clone()).or_insert(now);
                let counts = now.duration_since(failing_since) >= COUNTS_AFTER;
                if counts { Health::Unreachable(why) } else { Health::Unknown }
            }
            answered => {
                self.forget(node);
                answered
            }
        }
    }

    /// Drops what is kept for a node.
    pub(crate) fn forget(&self, node: &Key) {
        lock(&self.0).remove(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Health {
        Health::Unreachable("the sidecar did not respond within 2 s".into())
    }

    /// Records results of a ready sidecar, each after some milliseconds. Returns what decisions are based on.
    fn record(results: &[(u64, Health)]) -> Vec<Health> {
        let (failures, start) = (ProbeFailures::default(), Instant::now());
        let node = Key { namespace: "sei".into(), name: "a".into() };
        let record = |(at, health): &(u64, Health)| {
            failures.record(&node, true, health.clone(), start + Duration::from_millis(*at))
        };
        results.iter().map(record).collect()
    }

    #[test]
    fn single_failure_of_a_ready_sidecar_does_not_count() {
        let results =
            record(&[(0, Health::Ready), (100, failed()), (1_200, Health::Ready), (9_000, failed())]);
        assert_eq!(results, [Health::Ready, Health::Unknown, Health::Ready, Health::Unknown]);
    }

    #[test]
    fn failures_count_after_a_second() {
        let results = record(&[(0, failed()), (10, failed()), (500, Health::Unknown), (1_000, failed())]);
        assert_eq!(results, [Health::Unknown, Health::Unknown, Health::Unknown, failed()]);
    }

    #[test]
    fn sidecar_that_awaits_mark_ready_counts_at_once() {
        let results = record(&[(0, Health::NotReady), (10, failed()), (20, Health::NotReady)]);
        assert_eq!(results, [Health::NotReady, Health::Unknown, Health::NotReady]);
    }

    #[test]
    fn sidecar_that_was_not_ready_is_reported_at_once() {
        let (failures, now) = (ProbeFailures::default(), Instant::now());
        let node = Key { namespace: "sei".into(), name: "a".into() };
        assert_eq!(failures.record(&node, false, failed(), now), failed());
        assert_eq!(
            failures.record(&node, false, Health::Ready, now),
            Health::Ready,
            "readiness is not delayed"
        );
        assert_eq!(failures.record(&node, true, failed(), now), Health::Unknown);
        // The pod was replaced meanwhile.
        assert_eq!(failures.record(&node, false, failed(), now), failed());
        assert_eq!(failures.record(&node, true, failed(), now + COUNTS_AFTER), Health::Unknown);
        failures.forget(&node);
        assert!(lock(&failures.0).is_empty(), "no state is kept for a deleted node");
    }
}
