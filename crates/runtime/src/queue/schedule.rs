//! The state machine of the queue. Pure: time and jitter are arguments.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::backoff::Backoff;

/// The priority of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// The initial list after a start, and other changes that can wait.
    Low,
    /// A user's edit, a deletion, or an awaited response.
    High,
}

/// The result of processing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkResult {
    /// Success.
    Done {
        /// When to process the key again, if at all.
        requeue_after: Option<Duration>,
    },
    /// Failure: the key is retried with backoff.
    Failed,
}

/// After this many consecutive high-priority keys a low-priority one is processed, so that many edits do not starve the rest.
const MAX_CONSECUTIVE_HIGH: u32 = 16;

/// The state of a key.
#[derive(Debug)]
enum KeyState {
    /// Queued since `since`. Entries of the queues with another ticket are outdated.
    Waiting { priority: Priority, since: Instant, ticket: u64 },
    /// Not queued before `until`.
    Delayed { until: Instant, ticket: u64 },
    /// Being processed. Requests that arrive meanwhile are recorded here.
    Running { again: Option<Priority>, wake: Option<Instant> },
}

#[derive(Debug)]
struct Entry {
    state: KeyState,
    failures: u32,
}

/// All keys that are waiting, delayed or running. Each key is in exactly one of these states.
#[derive(Debug)]
pub(super) struct Schedule<K> {
    entries: HashMap<K, Entry>,
    high: VecDeque<(K, u64)>,
    low: VecDeque<(K, u64)>,
    delayed: BTreeMap<(Instant, u64), K>,
    last_ticket: u64,
    consecutive_high: u32,
    waiting: usize,
    running: usize,
    concurrency: usize,
    backoff: Backoff,
}

/// A key that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due<K> {
    pub(super) key: K,
    pub(super) waited: Duration,
    pub(super) failures: u32,
}

impl<K: Clone + Eq + Hash> Schedule<K> {
    pub(super) fn new(concurrency: usize, backoff: Backoff) -> Self {
        Self {
            entries: HashMap::new(),
            high: VecDeque::new(),
            low: VecDeque::new(),
            delayed: BTreeMap::new(),
            last_ticket: 0,
            consecutive_high: 0,
            waiting: 0,
            running: 0,
            concurrency: concurrency.max(1),
            backoff,
        }
    }

    /// Queues a key. A delayed key is queued at once, because the change may have fixed the failure it is delayed for.
    pub(super) fn add(&mut self, key: K, priority: Priority, now: Instant) {
        let failures = match self.entries.get_mut(&key) {
            Some(Entry { state: KeyState::Running { again, .. }, .. }) => {
                *again = (*again).max(Some(priority));
                return;
            }
            Some(Entry { state: KeyState::Waiting { priority: present, .. }, .. })
                if *present >= priority =>
            {
                return;
            }
            Some(Entry { state: KeyState::Waiting { since, .. }, failures }) => {
                let (since, failures) = (*since, *failures);
                self.enqueue(key, priority, since, failures);
                return;
            }
            Some(Entry { state: KeyState::Delayed { until, ticket }, failures }) => {
                self.delayed.remove(&(*until, *ticket));
                *failures
            }
            None => 0,
        };
        self.enqueue(key, priority, now, failures);
    }

    /// Queues a key at a point in time, unless it is due earlier.
    pub(super) fn add_at(&mut self, key: K, at: Instant) {
        match self.entries.get_mut(&key) {
            Some(Entry { state: KeyState::Running { wake, .. }, .. }) => {
                *wake = Some(wake.map_or(at, |present| present.min(at)));
            }
            Some(Entry { state: KeyState::Waiting { .. }, .. }) => {}
            Some(Entry { state: KeyState::Delayed { until, .. }, .. }) if *until <= at => {}
            Some(Entry { state: KeyState::Delayed { until, ticket }, failures }) => {
                self.delayed.remove(&(*until, *ticket));
                let failures = *failures;
                self.delay(key, at, failures);
            }
            None => self.delay(key, at, 0),
        }
    }

    /// Takes the next key, if one is due and the concurrency limit allows it.
    pub(super) fn take(&mut self, now: Instant) -> Option<Due<K>> {
        self.queue_due(now);
        if self.running >= self.concurrency {
            return None;
        }
        let order = if self.consecutive_high >= MAX_CONSECUTIVE_HIGH {
            [Priority::Low, Priority::High]
        } else {
            [Priority::High, Priority::Low]
        };
        let (key, priority) =
            order.into_iter().find_map(|priority| self.pop(priority).map(|key| (key, priority)))?;
        self.consecutive_high = if priority == Priority::High { self.consecutive_high + 1 } else { 0 };
        let entry = self.entries.get_mut(&key)?;
        let KeyState::Waiting { since, .. } = entry.state else { return None };
        entry.state = KeyState::Running { again: None, wake: None };
        self.waiting -= 1;
        self.running += 1;
        Some(Due { key, waited: now.saturating_duration_since(since), failures: entry.failures })
    }

    /// Records the result for a running key. `jitter` is between 0 and 1.
    pub(super) fn finish(&mut self, key: &K, result: WorkResult, now: Instant, jitter: f64) {
        let Some(Entry { state: KeyState::Running { again, wake }, failures }) = self.entries.remove(key)
        else {
            return;
        };
        self.running -= 1;
        let key = key.clone();
        let failures = if result == WorkResult::Failed { failures.saturating_add(1) } else { 0 };
        let retry = match result {
            WorkResult::Failed => Some(now + self.backoff.delay(failures, jitter)),
            WorkResult::Done { requeue_after } => requeue_after.map(|after| now + after),
        };
        match (again, result) {
            // A request that arrived during a failed attempt may be a watch event caused by that attempt: only high priority
            // skips the backoff.
            (Some(Priority::High), _) => self.enqueue(key, Priority::High, now, failures),
            (Some(Priority::Low), WorkResult::Done { .. }) => self.enqueue(key, Priority::Low, now, failures),
            _ => {
                if let Some(at) = retry.into_iter().chain(wake).min() {
                    self.delay(key, at, failures);
                }
            }
        }
    }

    /// Returns when the next delayed key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.keys().next().map(|(at, _)| *at)
    }

    /// Returns the maximum number of running keys.
    pub(super) fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// Returns the number of waiting keys.
    pub(super) fn depth(&self) -> usize {
        self.waiting
    }

    /// Returns the number of running keys.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Returns the keys whose last attempt failed, with their consecutive failures.
    pub(super) fn failing(&self) -> Vec<(K, u32)> {
        let failing = self.entries.iter().filter(|(_, entry)| entry.failures > 0);
        failing.map(|(key, entry)| (key.clone(), entry.failures)).collect()
    }

    fn enqueue(&mut self, key: K, priority: Priority, since: Instant, failures: u32) {
        let ticket = self.next_ticket();
        self.queue_mut(priority).push_back((key.clone(), ticket));
        let previous = self
            .entries
            .insert(key, Entry { state: KeyState::Waiting { priority, since, ticket }, failures });
        if !matches!(previous, Some(Entry { state: KeyState::Waiting { .. }, .. })) {
            self.waiting += 1;
        }
    }

    fn delay(&mut self, key: K, until: Instant, failures: u32) {
        let ticket = self.next_ticket();
        self.delayed.insert((until, ticket), key.clone());
        self.entries.insert(key, Entry { state: KeyState::Delayed { until, ticket }, failures });
    }

    /// Queues delayed keys that are due, with low priority.
    fn queue_due(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first_entry().filter(|first| first.key().0 <= now) {
            let key = first.remove();
            let failures = self.entries.get(&key).map_or(0, |entry| entry.failures);
            self.enqueue(key, Priority::Low, now, failures);
        }
    }

    /// Pops the first key with a current ticket. A key whose priority was raised leaves an outdated entry behind.
    fn pop(&mut self, priority: Priority) -> Option<K> {
        while let Some((key, ticket)) = self.queue_mut(priority).pop_front() {
            let is_current = self.entries.get(&key).is_some_and(
                |entry| matches!(entry.state, KeyState::Waiting { ticket: current, .. } if current == ticket),
            );
            if is_current {
                return Some(key);
            }
        }
        None
    }

    fn queue_mut(&mut self, priority: Priority) -> &mut VecDeque<(K, u64)> {
        match priority {
            Priority::High => &mut self.high,
            Priority::Low => &mut self.low,
        }
    }

    fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    const DONE: WorkResult = WorkResult::Done { requeue_after: None };

    fn requeue(seconds: u32) -> WorkResult {
        WorkResult::Done { requeue_after: Some(seconds * SECOND) }
    }

    fn new_schedule() -> (Schedule<&'static str>, Instant) {
        (Schedule::new(2, Backoff::default()), Instant::now())
    }

    fn take_all(schedule: &mut Schedule<&'static str>, now: Instant) -> Vec<&'static str> {
        std::iter::from_fn(|| schedule.take(now).map(|due| due.key)).collect()
    }

    #[test]
    fn keys_are_deduplicated_and_high_priority_comes_first() {
        let (mut schedule, now) = new_schedule();
        for (key, priority) in [
            ("a", Priority::Low),
            ("b", Priority::Low),
            ("a", Priority::Low),
            ("c", Priority::High),
            ("b", Priority::High),
        ] {
            schedule.add(key, priority, now);
        }
        assert_eq!(schedule.depth(), 3);
        assert_eq!(take_all(&mut schedule, now), ["c", "b"], "concurrency is 2");
        schedule.finish(&"c", DONE, now, 0.0);
        assert_eq!(take_all(&mut schedule, now), ["a"]);
    }

    #[test]
    fn key_added_while_running_is_processed_once_more_afterwards() {
        let (mut schedule, now) = new_schedule();
        schedule.add("a", Priority::High, now);
        assert_eq!(take_all(&mut schedule, now), ["a"]);
        schedule.add("a", Priority::Low, now);
        schedule.add("a", Priority::High, now);
        assert_eq!(take_all(&mut schedule, now), Vec::<&str>::new(), "running");
        schedule.finish(&"a", DONE, now, 0.0);
        assert_eq!(take_all(&mut schedule, now), ["a"], "once for both additions");
        schedule.finish(&"a", DONE, now, 0.0);
        assert_eq!(take_all(&mut schedule, now), Vec::<&str>::new());
        assert!(schedule.entries.is_empty(), "an idle key has no entry");
    }

    #[test]
    fn backoff_grows_with_failures_and_resets_after_success() {
        let (mut schedule, mut now) = new_schedule();
        schedule.add("a", Priority::High, now);
        for wait in [1, 2, 4, 8] {
            assert_eq!(take_all(&mut schedule, now), ["a"]);
            schedule.finish(&"a", WorkResult::Failed, now, 1.0);
            assert_eq!(schedule.next_due(), Some(now + wait * SECOND));
            assert_eq!(
                take_all(&mut schedule, now + wait * SECOND - Duration::from_millis(1)),
                Vec::<&str>::new()
            );
            now += wait * SECOND;
        }
        assert_eq!(schedule.take(now).map(|due| due.failures), Some(4));
        schedule.finish(&"a", DONE, now, 1.0);
        schedule.add("a", Priority::High, now);
        assert_eq!(schedule.take(now).map(|due| due.failures), Some(0));
    }

    #[test]
    fn high_priority_skips_backoff_and_low_priority_does_not() {
        let (mut schedule, now) = new_schedule();
        schedule.add("a", Priority::High, now);
        take_all(&mut schedule, now);
        schedule.add("a", Priority::Low, now);
        schedule.finish(&"a", WorkResult::Failed, now, 1.0);
        assert_eq!(take_all(&mut schedule, now), Vec::<&str>::new(), "the backoff still applies");
        schedule.add("a", Priority::High, now);
        assert_eq!(schedule.take(now).map(|due| due.failures), Some(1), "queued at once, with its failures");
        schedule.finish(&"a", WorkResult::Failed, now, 1.0);
        assert_eq!(schedule.next_due(), Some(now + 2 * SECOND));
    }

    #[test]
    fn earliest_requeue_time_wins() {
        let (mut schedule, now) = new_schedule();
        schedule.add("a", Priority::High, now);
        take_all(&mut schedule, now);
        schedule.finish(&"a", requeue(10), now, 0.0);
        schedule.add_at("a", now + 20 * SECOND);
        assert_eq!(schedule.next_due(), Some(now + 10 * SECOND), "the earlier time wins");
        schedule.add_at("a", now + 5 * SECOND);
        assert_eq!(schedule.next_due(), Some(now + 5 * SECOND));
        schedule.add("a", Priority::High, now);
        assert_eq!(schedule.next_due(), None);
        assert_eq!(take_all(&mut schedule, now), ["a"]);
        schedule.add_at("a", now + SECOND);
        schedule.finish(&"a", requeue(3), now, 0.0);
        assert_eq!(schedule.next_due(), Some(now + SECOND), "requested while running");
    }

    #[test]
    fn high_priority_keys_do_not_starve_low_priority_keys() {
        let mut schedule = Schedule::new(1, Backoff::default());
        let now = Instant::now();
        schedule.add(0, Priority::Low, now);
        for key in 1..100 {
            schedule.add(key, Priority::High, now);
        }
        let mut high = 0;
        loop {
            let due = schedule.take(now).expect("a key is due");
            schedule.finish(&due.key, DONE, now, 0.0);
            if due.key == 0 {
                break;
            }
            high += 1;
        }
        assert_eq!(high, MAX_CONSECUTIVE_HIGH);
    }

    #[test]
    fn random_operations_never_lose_duplicate_or_exceed_concurrency() {
        // A random walk, compared with a simple model: the set of keys that must still be processed.
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut schedule = Schedule::new(3, Backoff::default());
            let mut now = Instant::now();
            let mut running: Vec<u8> = Vec::new();
            let mut expected: std::collections::BTreeSet<u8> = Default::default();
            for _ in 0..400 {
                now += Duration::from_millis(rng.u64(0..400));
                match rng.u8(0..4) {
                    0 => {
                        let key = rng.u8(0..8);
                        schedule.add(key, if rng.bool() { Priority::High } else { Priority::Low }, now);
                        expected.insert(key);
                    }
                    1 => {
                        if let Some(due) = schedule.take(now) {
                            assert!(!running.contains(&due.key), "seed {seed}: {} handed out twice", due.key);
                            running.push(due.key);
                            expected.remove(&due.key);
                            assert!(running.len() <= 3, "seed {seed}");
                        }
                    }
                    2 if !running.is_empty() => {
                        let key = running.swap_remove(rng.usize(0..running.len()));
                        let failed = rng.bool();
                        if failed {
                            expected.insert(key);
                        }
                        schedule.finish(&key, if failed { WorkResult::Failed } else { DONE }, now, rng.f64());
                    }
                    _ => {}
                }
            }
            for key in running.drain(..) {
                schedule.finish(&key, DONE, now, 0.0);
            }
            // Every expected key is processed eventually.
            while let Some(due) = schedule.take(now).or_else(|| {
                now = schedule.next_due()?;
                schedule.take(now)
            }) {
                expected.remove(&due.key);
                schedule.finish(&due.key, DONE, now, 0.0);
            }
            assert!(expected.is_empty() && schedule.entries.is_empty(), "seed {seed}: lost {expected:?}");
            assert_eq!((schedule.depth(), schedule.running()), (0, 0), "seed {seed}");
        }
    }
}
