//! State of each expected plugin.

use std::time::Duration;

use api::kms::{HealthStatus, KeyRole, UNKNOWN_KEY_ID};
use k8s_openapi::jiff::Timestamp;

use super::freshness::{self, Freshness, INSTANT};
use super::input::{Expected, ExpectedNode, Now, Report, Reports, Rules};
use super::message::StoredState;
use super::state::Memory;

/// State of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Healthy.
    Healthy,
    /// Responds, but an API server would not use it.
    Unhealthy,
    /// Does not respond.
    Error,
    /// The reporter has stopped.
    Stale,
    /// The report is malformed.
    Malformed,
    /// The probe time is in the future.
    ClockSkew,
    /// Never reported, deadline exceeded.
    NeverReported,
    /// Not reported yet.
    NotYetObserved,
}

impl State {
    /// Every state.
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

    /// Returns the name in messages and metrics.
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

    /// Reports whether a fresh report says that the plugin is unhealthy.
    pub(super) fn is_failing(self) -> bool {
        matches!(self, Self::Unhealthy | Self::Error)
    }

    /// Reports whether the state is unknown although a report is expected.
    pub(super) fn is_unknown(self) -> bool {
        matches!(self, Self::Stale | Self::Malformed | Self::ClockSkew | Self::NeverReported)
    }
}

/// Expected plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Node.
    pub node: String,
    /// Key number.
    pub key: String,
    /// Whether the key encrypts new data.
    pub role: KeyRole,
    /// State.
    pub state: State,
    /// Start of the state. It does not change while the state is unchanged.
    pub since: Timestamp,
    /// Whether the status is flapping.
    pub flapping: bool,
    /// ID of the KMS key of a healthy plugin.
    pub remote_key_id: Option<String>,
    /// Error detail.
    pub detail: Option<String>,
}

/// Evaluates each expected plugin, sorted by node and key, latest key first. Adds to `due` the times at which a state may change
/// without new reports.
pub(super) fn evaluate(
    rules: &Rules,
    reports: &Reports,
    expected: &Expected,
    stored_states: &[StoredState],
    memory: &mut Memory,
    now: Now,
    due: &mut Vec<Duration>,
) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for node in &expected.nodes {
        for key in &node.keys {
            let found = newest(reports, &node.name, &key.key_id);
            let known = stored_states.iter().find(|known| known.matches(&node.name, &key.key_id));
            let (state, detail) = match found {
                Some(report) => evaluate_report(report, rules, memory, now, due),
                None => match reports.unreadable.iter().find(|one| one.node == node.name) {
                    Some(unreadable) => (State::Malformed, Some(unreadable.why.clone())),
                    None => (evaluate_missing(node, &key.key_id, rules, known, memory, now, due), None),
                },
            };
            let plugin = (node.name.clone(), key.key_id.clone());
            if state != State::NeverReported && state != State::NotYetObserved {
                memory.awaited.remove(&plugin);
            }
            let flapping = found.and_then(|report| memory.entry(report)).and_then(|entry| entry.flapping);
            let since = state_start(state, found, known, memory.states.get(&plugin), now);
            memory.states.insert(plugin, (state, since));
            let id =
                found.filter(|_| state == State::Healthy).and_then(|report| report.remote_key_id.clone());
            subjects.push(Subject {
                node: node.name.clone(),
                key: key.key_id.clone(),
                role: key.role,
                state,
                since: flapping.unwrap_or(since),
                flapping: flapping.is_some(),
                // A placeholder is not a key ID: two nodes without a key ID do not agree.
                remote_key_id: id.filter(|id| !id.is_empty() && id != UNKNOWN_KEY_ID),
                detail,
            });
        }
    }
    subjects.sort_by(|a, b| a.node.cmp(&b.node).then_with(|| sort_key(&b.key).cmp(&sort_key(&a.key))));
    let is_expected = |node: &str, key: &str| subjects.iter().any(|one| one.node == node && one.key == key);
    memory.states.retain(|(node, key), _| is_expected(node, key));
    memory.awaited.retain(|(node, key), _| is_expected(node, key));
    subjects
}

/// Returns the sort key of a key number. Non-numeric keys sort last.
fn sort_key(key: &str) -> (Option<u64>, &str) {
    (key.parse().ok(), key)
}

/// Returns the latest report of a plugin. A reporter that switched the format leaves its old report behind.
pub(super) fn newest<'a>(reports: &'a Reports, node: &str, key: &str) -> Option<&'a Report> {
    let all = reports.readable.iter().filter(|report| report.node == node && report.key == key);
    all.max_by_key(|report| (report.checked, report.form))
}

fn evaluate_report(
    report: &Report,
    rules: &Rules,
    memory: &Memory,
    now: Now,
    due: &mut Vec<Duration>,
) -> (State, Option<String>) {
    let detail = || report.detail.clone();
    // Every report has been observed before.
    let Some(entry) = memory.entry(report) else { return (State::NotYetObserved, None) };
    match freshness::evaluate(report, entry, rules, now) {
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

/// Evaluates a plugin without a report, which counts as missing only some time after its API server started.
fn evaluate_missing(
    node: &ExpectedNode,
    key: &str,
    rules: &Rules,
    known: Option<&StoredState>,
    memory: &mut Memory,
    now: Now,
    due: &mut Vec<Duration>,
) -> State {
    let plugin = (node.name.clone(), key.to_owned());
    if !node.running {
        memory.awaited.remove(&plugin);
        return State::NotYetObserved;
    }
    let deadline = rules.stale_after(None);
    // A restarted process does not grant a new deadline.
    let was_missing = known.is_some_and(|known| known.state == State::NeverReported);
    if was_missing {
        return State::NeverReported;
    }
    if memory.states.get(&plugin).is_some_and(|(state, _)| *state == State::NeverReported) {
        return State::NeverReported;
    }
    let since = *memory.awaited.entry(plugin).or_insert(now.steady);
    if now.steady.saturating_sub(since) > deadline {
        return State::NeverReported;
    }
    due.push(since.saturating_add(deadline).saturating_add(INSTANT));
    State::NotYetObserved
}

/// Returns the start of the state. It is stable while the state is unchanged, also across restarts, because a time that changes with
/// every reconcile would cause a write each time.
fn state_start(
    state: State,
    report: Option<&Report>,
    known: Option<&StoredState>,
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
            whole_seconds(report.checked)
        }
        _ => whole_seconds(now.wall),
    }
}

/// Truncates to whole seconds, the precision of stored times.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
