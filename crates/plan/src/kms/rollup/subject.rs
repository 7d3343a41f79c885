//! Each plugin that is expected to be reported, and how it is.

use std::time::Duration;

use api::kms::{HealthStatus, KeyRole, UNKNOWN_KEY_ID};
use k8s_openapi::jiff::Timestamp;

use super::freshness::{self, Freshness, INSTANT};
use super::input::{Expected, ExpectedNode, Now, Report, Reports, Rules};
use super::memory::Memory;
use super::message::Recalled;

/// How a plugin is, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is well.
    Healthy,
    /// It answers, and an API server would not use it.
    Unhealthy,
    /// It gives no answer.
    Error,
    /// Its reporter has stopped.
    Stale,
    /// Its report cannot be read.
    Malformed,
    /// Its report comes from the future.
    ClockSkew,
    /// It was never reported, and should have been long ago.
    NeverReported,
    /// It was not reported yet.
    NotYetObserved,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Healthy,
        Self::Unhealthy,
        Self::Error,
        Self::Stale,
        Self::Malformed,
        Self::ClockSkew,
        Self::NeverReported,
        Self::NotYetObserved,
    ];

    /// In one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Unhealthy => "Unhealthy",
            Self::Error => "Error",
            Self::Stale => "Stale",
            Self::Malformed => "Malformed",
            Self::ClockSkew => "ClockSkew",
            Self::NeverReported => "NeverReported",
            Self::NotYetObserved => "NotYetObserved",
        }
    }

    /// Whether a fresh report says that the plugin is sick.
    pub(super) fn is_sick(self) -> bool {
        matches!(self, Self::Unhealthy | Self::Error)
    }

    /// Whether nothing is known of the plugin although something should be.
    pub(super) fn is_unknown(self) -> bool {
        matches!(self, Self::Stale | Self::Malformed | Self::ClockSkew | Self::NeverReported)
    }
}

/// A plugin that is expected to be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The node.
    pub node: String,
    /// Number of the key.
    pub key: String,
    /// Whether new data is encrypted with the key.
    pub role: KeyRole,
    /// How it is.
    pub state: State,
    /// Since when. It never moves while the state stays.
    pub since: Timestamp,
    /// Whether it goes from well to sick and back.
    pub flapping: bool,
    /// Id of the key in the KMS, of a plugin that is well.
    pub remote_key_id: Option<String>,
    /// What was said.
    pub detail: Option<String>,
}

/// How each expected plugin is, by node and then by key, the newest first. `due` is told when that may change by itself.
pub(super) fn evaluate(
    rules: &Rules,
    reports: &Reports,
    expected: &Expected,
    recalled: &[Recalled],
    memory: &mut Memory,
    now: Now,
    due: &mut Vec<Duration>,
) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for node in &expected.nodes {
        for key in &node.keys {
            let found = newest(reports, &node.name, &key.key_id);
            let known = recalled.iter().find(|known| known.is_about(&node.name, &key.key_id));
            let (state, detail) = match found {
                Some(report) => judged(report, rules, memory, now, due),
                None => match reports.unreadable.iter().find(|one| one.node == node.name) {
                    Some(unreadable) => (State::Malformed, Some(unreadable.why.clone())),
                    None => (missing(node, &key.key_id, rules, known, memory, now, due), None),
                },
            };
            let place = (node.name.clone(), key.key_id.clone());
            if state != State::NeverReported && state != State::NotYetObserved {
                memory.awaited.remove(&place);
            }
            let flapping = found.and_then(|report| memory.seen(report)).and_then(|seen| seen.flapping);
            let began = began(state, found, known, memory.states.get(&place), now);
            memory.states.insert(place, (state, began));
            let id =
                found.filter(|_| state == State::Healthy).and_then(|report| report.remote_key_id.clone());
            subjects.push(Subject {
                node: node.name.clone(),
                key: key.key_id.clone(),
                role: key.role,
                state,
                since: flapping.unwrap_or(began),
                flapping: flapping.is_some(),
                // A placeholder is no key: two nodes that know none do not agree.
                remote_key_id: id.filter(|id| !id.is_empty() && id != UNKNOWN_KEY_ID),
                detail,
            });
        }
    }
    subjects.sort_by(|a, b| a.node.cmp(&b.node).then_with(|| number(&b.key).cmp(&number(&a.key))));
    let there = |node: &str, key: &str| subjects.iter().any(|one| one.node == node && one.key == key);
    memory.states.retain(|(node, key), _| there(node, key));
    memory.awaited.retain(|(node, key), _| there(node, key));
    subjects
}

/// Keys are numbered; what is no number comes last.
fn number(key: &str) -> (Option<u64>, &str) {
    (key.parse().ok(), key)
}

/// The newest of a plugin's reports: a reporter that was told to publish in another form leaves its old one behind.
pub(super) fn newest<'a>(reports: &'a Reports, node: &str, key: &str) -> Option<&'a Report> {
    let all = reports.readable.iter().filter(|report| report.node == node && report.key == key);
    all.max_by_key(|report| (report.checked, report.form))
}

fn judged(
    report: &Report,
    rules: &Rules,
    memory: &Memory,
    now: Now,
    due: &mut Vec<Duration>,
) -> (State, Option<String>) {
    let detail = || report.detail.clone();
    // Every report was noted before.
    let Some(seen) = memory.seen(report) else { return (State::NotYetObserved, None) };
    match freshness::of(report, seen, rules, now) {
        Freshness::Stale => (State::Stale, None),
        Freshness::Ahead => (State::ClockSkew, None),
        Freshness::Fresh { until } => {
            due.push(until);
            match report.status {
                HealthStatus::Healthy => (State::Healthy, None),
                HealthStatus::Unhealthy => (State::Unhealthy, detail()),
                HealthStatus::Error => (State::Error, detail()),
            }
        }
    }
}

/// A plugin that nobody reports: that is missed only some time after its API server came up.
fn missing(
    node: &ExpectedNode,
    key: &str,
    rules: &Rules,
    known: Option<&Recalled>,
    memory: &mut Memory,
    now: Now,
    due: &mut Vec<Duration>,
) -> State {
    let place = (node.name.clone(), key.to_owned());
    if !node.running {
        memory.awaited.remove(&place);
        return State::NotYetObserved;
    }
    let patience = rules.stale_after(None);
    // A process that begins to look does not give another deadline to what was past it.
    let past = known.is_some_and(|known| known.state == State::NeverReported);
    if past {
        return State::NeverReported;
    }
    if memory.states.get(&place).is_some_and(|(state, _)| *state == State::NeverReported) {
        return State::NeverReported;
    }
    let since = *memory.awaited.entry(place).or_insert(now.steady);
    if now.steady.saturating_sub(since) > patience {
        return State::NeverReported;
    }
    due.push(since.saturating_add(patience).saturating_add(INSTANT));
    State::NotYetObserved
}

/// Since when a plugin is as it is: as long as it stays so the time stays, also from one process to the next. A time that moved
/// with every look would make every look a write.
fn began(
    state: State,
    report: Option<&Report>,
    known: Option<&Recalled>,
    before: Option<&(State, Timestamp)>,
    now: Now,
) -> Timestamp {
    match (before, known) {
        (Some((same, since)), _) if *same == state => return *since,
        (None, Some(known)) if known.state == state => return known.since,
        _ => {}
    }
    match (state, report) {
        (State::Healthy | State::Unhealthy | State::Error | State::Stale, Some(report)) => {
            whole(report.checked)
        }
        _ => whole(now.wall),
    }
}

/// Without fractions of a second, as times are written.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
