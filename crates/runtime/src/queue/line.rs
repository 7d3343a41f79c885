//! The order of work, as a pure state machine: time and chance are arguments, so that tests decide both.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::backoff::Backoff;

/// How urgent a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// The initial list after a start: nobody waits for it.
    Low,
    /// A person's edit, a deletion, an answer that was waited for.
    High,
}

/// How the work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Well; to be looked at again after this time, if any.
    Well(Option<Duration>),
    /// With an error: to be tried again after its backoff.
    Failed,
}

/// After so many urgent keys a patient one has its turn, so that a flood of edits does not starve the rest.
const URGENT_IN_A_ROW: u32 = 16;

/// Where a key is.
#[derive(Debug)]
enum Place {
    /// In a line, since then; the ticket tells its entry there from outdated ones.
    Waiting { priority: Priority, since: Instant, ticket: u64 },
    /// In no line until then.
    Delayed { until: Instant, ticket: u64 },
    /// Being worked on; what came for it meanwhile.
    Running { again: Option<Priority>, wake: Option<Instant> },
}

#[derive(Debug)]
struct Entry {
    place: Place,
    failures: u32,
}

/// Every key at most once: waiting, delayed, or being worked on.
#[derive(Debug)]
pub(super) struct Line<K> {
    entries: HashMap<K, Entry>,
    urgent: VecDeque<(K, u64)>,
    patient: VecDeque<(K, u64)>,
    delayed: BTreeMap<(Instant, u64), K>,
    last_ticket: u64,
    urgent_in_a_row: u32,
    waiting: usize,
    running: usize,
    concurrency: usize,
    backoff: Backoff,
}

/// A key whose turn it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Turn<K> {
    pub(super) key: K,
    pub(super) waited: Duration,
    pub(super) failures: u32,
}

impl<K: Clone + Eq + Hash> Line<K> {
    pub(super) fn new(concurrency: usize, backoff: Backoff) -> Self {
        Self {
            entries: HashMap::new(),
            urgent: VecDeque::new(),
            patient: VecDeque::new(),
            delayed: BTreeMap::new(),
            last_ticket: 0,
            urgent_in_a_row: 0,
            waiting: 0,
            running: 0,
            concurrency: concurrency.max(1),
            backoff,
        }
    }

    /// Something happened to a key: it is to be worked on as soon as there is room. Also when it was delayed after a
    /// failure, since what happened may be the cure.
    pub(super) fn add(&mut self, key: K, priority: Priority, now: Instant) {
        let failures = match self.entries.get_mut(&key) {
            Some(Entry { place: Place::Running { again, .. }, .. }) => {
                *again = (*again).max(Some(priority));
                return;
            }
            Some(Entry { place: Place::Waiting { priority: present, .. }, .. }) if *present >= priority => {
                return;
            }
            Some(Entry { place: Place::Waiting { since, .. }, failures }) => {
                let (since, failures) = (*since, *failures);
                self.enqueue(key, priority, since, failures);
                return;
            }
            Some(Entry { place: Place::Delayed { until, ticket }, failures }) => {
                self.delayed.remove(&(*until, *ticket));
                *failures
            }
            None => 0,
        };
        self.enqueue(key, priority, now, failures);
    }

    /// A key is to be looked at at a time, or earlier when something happens to it.
    pub(super) fn add_at(&mut self, key: K, at: Instant) {
        match self.entries.get_mut(&key) {
            Some(Entry { place: Place::Running { wake, .. }, .. }) => {
                *wake = Some(wake.map_or(at, |present| present.min(at)));
            }
            Some(Entry { place: Place::Waiting { .. }, .. }) => {}
            Some(Entry { place: Place::Delayed { until, .. }, .. }) if *until <= at => {}
            Some(Entry { place: Place::Delayed { until, ticket }, failures }) => {
                self.delayed.remove(&(*until, *ticket));
                let failures = *failures;
                self.delay(key, at, failures);
            }
            None => self.delay(key, at, 0),
        }
    }

    /// The next key to work on, if any is due and there is room.
    pub(super) fn take(&mut self, now: Instant) -> Option<Turn<K>> {
        self.wake(now);
        if self.running >= self.concurrency {
            return None;
        }
        let patient_first = self.urgent_in_a_row >= URGENT_IN_A_ROW;
        let (key, urgent) = if patient_first {
            self.pop(false).map(|key| (key, false)).or_else(|| self.pop(true).map(|key| (key, true)))
        } else {
            self.pop(true).map(|key| (key, true)).or_else(|| self.pop(false).map(|key| (key, false)))
        }?;
        self.urgent_in_a_row = if urgent { self.urgent_in_a_row + 1 } else { 0 };
        let entry = self.entries.get_mut(&key)?;
        let Place::Waiting { since, .. } = entry.place else { return None };
        entry.place = Place::Running { again: None, wake: None };
        self.waiting -= 1;
        self.running += 1;
        Some(Turn { key, waited: now.saturating_duration_since(since), failures: entry.failures })
    }

    /// The work on a key has ended. `jitter` is between 0 and 1.
    pub(super) fn finish(&mut self, key: &K, ended: Ended, now: Instant, jitter: f64) {
        let Some(Entry { place: Place::Running { again, wake }, failures }) = self.entries.remove(key) else {
            return;
        };
        self.running -= 1;
        let key = key.clone();
        let failures = if ended == Ended::Failed { failures.saturating_add(1) } else { 0 };
        let retry = match ended {
            Ended::Failed => Some(now + self.backoff.after(failures, jitter)),
            Ended::Well(after) => after.map(|after| now + after),
        };
        match (again, ended) {
            // What came for a key that failed may be the trace of the failed work itself: only what is urgent may
            // cut its backoff short.
            (Some(Priority::High), _) => self.enqueue(key, Priority::High, now, failures),
            (Some(Priority::Low), Ended::Well(_)) => self.enqueue(key, Priority::Low, now, failures),
            _ => {
                if let Some(at) = retry.into_iter().chain(wake).min() {
                    self.delay(key, at, failures);
                }
            }
        }
    }

    /// When the next delayed key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.keys().next().map(|(at, _)| *at)
    }

    /// How many keys may be worked on at once.
    pub(super) fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// Keys that wait for their turn.
    pub(super) fn depth(&self) -> usize {
        self.waiting
    }

    /// Keys that are being worked on.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Keys that failed the last time they were worked on, with how often in a row.
    pub(super) fn failing(&self) -> Vec<(K, u32)> {
        let failing = self.entries.iter().filter(|(_, entry)| entry.failures > 0);
        failing.map(|(key, entry)| (key.clone(), entry.failures)).collect()
    }

    fn enqueue(&mut self, key: K, priority: Priority, since: Instant, failures: u32) {
        let ticket = self.ticket();
        let line = if priority == Priority::High { &mut self.urgent } else { &mut self.patient };
        line.push_back((key.clone(), ticket));
        let before =
            self.entries.insert(key, Entry { place: Place::Waiting { priority, since, ticket }, failures });
        if !matches!(before, Some(Entry { place: Place::Waiting { .. }, .. })) {
            self.waiting += 1;
        }
    }

    fn delay(&mut self, key: K, until: Instant, failures: u32) {
        let ticket = self.ticket();
        self.delayed.insert((until, ticket), key.clone());
        self.entries.insert(key, Entry { place: Place::Delayed { until, ticket }, failures });
    }

    /// Delayed keys that are due join the patient line: whoever is urgent does not come by the clock.
    fn wake(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first_entry().filter(|first| first.key().0 <= now) {
            let key = first.remove();
            let failures = self.entries.get(&key).map_or(0, |entry| entry.failures);
            self.enqueue(key, Priority::Low, now, failures);
        }
    }

    /// The first key of a line whose ticket is still good; a key that was moved to the other line left one behind.
    fn pop(&mut self, urgent: bool) -> Option<K> {
        let line = if urgent { &mut self.urgent } else { &mut self.patient };
        while let Some((key, ticket)) = line.pop_front() {
            let good = self.entries.get(&key).is_some_and(
                |entry| matches!(entry.place, Place::Waiting { ticket: present, .. } if present == ticket),
            );
            if good {
                return Some(key);
            }
        }
        None
    }

    fn ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn line() -> (Line<&'static str>, Instant) {
        (Line::new(2, Backoff::default()), Instant::now())
    }

    fn keys(line: &mut Line<&'static str>, now: Instant) -> Vec<&'static str> {
        std::iter::from_fn(|| line.take(now).map(|turn| turn.key)).collect()
    }

    #[test]
    fn a_key_is_there_once_and_the_urgent_come_first() {
        let (mut line, now) = line();
        for (key, priority) in [
            ("a", Priority::Low),
            ("b", Priority::Low),
            ("a", Priority::Low),
            ("c", Priority::High),
            ("b", Priority::High),
        ] {
            line.add(key, priority, now);
        }
        assert_eq!(line.depth(), 3);
        assert_eq!(keys(&mut line, now), ["c", "b"], "no more than two at once");
        line.finish(&"c", Ended::Well(None), now, 0.0);
        assert_eq!(keys(&mut line, now), ["a"]);
    }

    #[test]
    fn a_key_is_never_worked_on_twice_at_once_and_nothing_that_came_meanwhile_is_lost() {
        let (mut line, now) = line();
        line.add("a", Priority::High, now);
        assert_eq!(keys(&mut line, now), ["a"]);
        line.add("a", Priority::Low, now);
        line.add("a", Priority::High, now);
        assert_eq!(keys(&mut line, now), Vec::<&str>::new(), "it is being worked on");
        line.finish(&"a", Ended::Well(None), now, 0.0);
        assert_eq!(keys(&mut line, now), ["a"], "once, for both");
        line.finish(&"a", Ended::Well(None), now, 0.0);
        assert_eq!(keys(&mut line, now), Vec::<&str>::new());
        assert!(line.entries.is_empty(), "a key that rests takes no room");
    }

    #[test]
    fn a_failing_key_waits_longer_each_time_and_starts_anew_after_success() {
        let (mut line, mut now) = line();
        line.add("a", Priority::High, now);
        for wait in [1, 2, 4, 8] {
            assert_eq!(keys(&mut line, now), ["a"]);
            line.finish(&"a", Ended::Failed, now, 1.0);
            assert_eq!(line.next_due(), Some(now + wait * SECOND));
            assert_eq!(keys(&mut line, now + wait * SECOND - Duration::from_millis(1)), Vec::<&str>::new());
            now += wait * SECOND;
        }
        assert_eq!(line.take(now).map(|turn| turn.failures), Some(4));
        line.finish(&"a", Ended::Well(None), now, 1.0);
        line.add("a", Priority::High, now);
        assert_eq!(line.take(now).map(|turn| turn.failures), Some(0));
    }

    #[test]
    fn an_edit_cuts_a_backoff_short_and_an_echo_of_the_failed_work_does_not() {
        let (mut line, now) = line();
        line.add("a", Priority::High, now);
        keys(&mut line, now);
        line.add("a", Priority::Low, now);
        line.finish(&"a", Ended::Failed, now, 1.0);
        assert_eq!(keys(&mut line, now), Vec::<&str>::new(), "it keeps its backoff");
        line.add("a", Priority::High, now);
        assert_eq!(line.take(now).map(|turn| turn.failures), Some(1), "now, and its failures are remembered");
        line.finish(&"a", Ended::Failed, now, 1.0);
        assert_eq!(line.next_due(), Some(now + 2 * SECOND));
    }

    #[test]
    fn a_deadline_wakes_a_key_unless_something_did_before() {
        let (mut line, now) = line();
        line.add("a", Priority::High, now);
        keys(&mut line, now);
        line.finish(&"a", Ended::Well(Some(10 * SECOND)), now, 0.0);
        line.add_at("a", now + 20 * SECOND);
        assert_eq!(line.next_due(), Some(now + 10 * SECOND), "the earlier one counts");
        line.add_at("a", now + 5 * SECOND);
        assert_eq!(line.next_due(), Some(now + 5 * SECOND));
        line.add("a", Priority::High, now);
        assert_eq!(line.next_due(), None);
        assert_eq!(keys(&mut line, now), ["a"]);
        line.add_at("a", now + SECOND);
        line.finish(&"a", Ended::Well(Some(3 * SECOND)), now, 0.0);
        assert_eq!(line.next_due(), Some(now + SECOND), "asked for while it was worked on");
    }

    #[test]
    fn a_flood_of_edits_does_not_starve_the_rest() {
        let mut line = Line::new(1, Backoff::default());
        let now = Instant::now();
        line.add(0, Priority::Low, now);
        for key in 1..100 {
            line.add(key, Priority::High, now);
        }
        let mut before = 0;
        loop {
            let turn = line.take(now).expect("there is work");
            line.finish(&turn.key, Ended::Well(None), now, 0.0);
            if turn.key == 0 {
                break;
            }
            before += 1;
        }
        assert_eq!(before, URGENT_IN_A_ROW);
    }

    #[test]
    fn whatever_happens_no_key_is_lost_doubled_or_beyond_the_cap() {
        // A walk that chance chooses, against the plainest model: which keys must still be worked on.
        for seed in 0..200 {
            let mut chance = fastrand::Rng::with_seed(seed);
            let mut line = Line::new(3, Backoff::default());
            let mut now = Instant::now();
            let mut running: Vec<u8> = Vec::new();
            let mut wanted: std::collections::BTreeSet<u8> = Default::default();
            for _ in 0..400 {
                now += Duration::from_millis(chance.u64(0..400));
                match chance.u8(0..4) {
                    0 => {
                        let key = chance.u8(0..8);
                        line.add(key, if chance.bool() { Priority::High } else { Priority::Low }, now);
                        wanted.insert(key);
                    }
                    1 => {
                        if let Some(turn) = line.take(now) {
                            assert!(!running.contains(&turn.key), "seed {seed}: {} twice at once", turn.key);
                            running.push(turn.key);
                            wanted.remove(&turn.key);
                            assert!(running.len() <= 3, "seed {seed}");
                        }
                    }
                    2 if !running.is_empty() => {
                        let key = running.swap_remove(chance.usize(0..running.len()));
                        let failed = chance.bool();
                        if failed {
                            wanted.insert(key);
                        }
                        line.finish(
                            &key,
                            if failed { Ended::Failed } else { Ended::Well(None) },
                            now,
                            chance.f64(),
                        );
                    }
                    _ => {}
                }
            }
            for key in running.drain(..) {
                line.finish(&key, Ended::Well(None), now, 0.0);
            }
            // Everything that is wanted comes, in the end.
            while let Some(turn) = line.take(now).or_else(|| {
                now = line.next_due()?;
                line.take(now)
            }) {
                wanted.remove(&turn.key);
                line.finish(&turn.key, Ended::Well(None), now, 0.0);
            }
            assert!(wanted.is_empty() && line.entries.is_empty(), "seed {seed}: lost {wanted:?}");
            assert_eq!((line.depth(), line.running()), (0, 0), "seed {seed}");
        }
    }
}
