//! State of each expected plugin.

use std::time::Duration;

use api::kms::{KeyRole, PluginStatus, UNKNOWN_KEY_ID};
use k8s_openapi::jiff::Timestamp;

use super::freshness::{self, Freshness, INSTANT};
use super::input::{ClockReading, ExpectedNode, ExpectedReporters, PluginReport, Reports, RollupRules};
use super::message::StoredState;
use super::state::RollupState;

/// State of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginState {
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

impl PluginState {
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
            Self::Healthy => PluginStatus::Healthy.as_str(),
            Self::Unhealthy => PluginStatus::Unhealthy.as_str(),
            Self::Error => PluginStatus::Error.as_str(),
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
pub struct PluginObservation {
    /// Node.
    pub node: String,
    /// Key number.
    pub key: String,
    /// Whether the key encrypts new data.
    pub role: KeyRole,
    /// State.
    pub state: PluginState,
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
    rules: &RollupRules,
    reports: &Reports,
    expected: &ExpectedReporters,
    stored_states: &[StoredState],
    rollup_state: &mut RollupState,
    now: ClockReading,
    due: &mut Vec<Duration>,
) -> Vec<PluginObservation> {
    let mut subjects = Vec::new();
    for node in &expected.nodes {
        for key in &node.keys {
            let found = newest(reports, &node.name, &key.key_id);
            let known = stored_states.iter().find(|known| known.matches(&node.name, &key.key_id));
            let (state, detail) = match found {
                Some(report) => evaluate_report(report, rules, rollup_state, now, due),
                None => match reports.malformed.iter().find(|one| one.node == node.name) {
                    Some(unreadable) => (PluginState::Malformed, Some(unreadable.why.clone())),
                    None => (evaluate_missing(node, &key.key_id, rules, known, rollup_state, now, due), None),
                },
            };
            let plugin = (node.name.clone(), key.key_id.clone());
            if state != PluginState::NeverReported && state != PluginState::NotYetObserved {
                rollup_state.awaited.remove(&plugin);
            }
            let flapping =
                found.and_then(|report| rollup_state.entry(report)).and_then(|entry| entry.flapping);
            let since = state_start(state, found, known, rollup_state.states.get(&plugin), now);
            rollup_state.states.insert(plugin, (state, since));
            let id = found
                .filter(|_| state == PluginState::Healthy)
                .and_then(|report| report.remote_key_id.clone());
            subjects.push(PluginObservation {
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
    rollup_state.states.retain(|(node, key), _| is_expected(node, key));
    rollup_state.awaited.retain(|(node, key), _| is_expected(node, key));
    subjects
}

/// Returns the sort key of a key number. Non-numeric keys sort last.
fn sort_key(key: &str) -> (Option<u64>, &str) {
    (key.parse().ok(), key)
}

/// Returns the latest report of a plugin. A reporter that switched the format leaves its old report behind.
pub(super) fn newest<'a>(reports: &'a Reports, node: &str, key: &str) -> Option<&'a PluginReport> {
    let all = reports.valid.iter().filter(|report| report.node == node && report.key == key);
    all.max_by_key(|report| (report.checked, report.format))
}

fn evaluate_report(
    report: &PluginReport,
    rules: &RollupRules,
    rollup_state: &RollupState,
    now: ClockReading,
    due: &mut Vec<Duration>,
) -> (PluginState, Option<String>) {
    let detail = || report.detail.clone();
    // Every report has been observed before.
    let Some(entry) = rollup_state.entry(report) else { return (PluginState::NotYetObserved, None) };
    match freshness::evaluate(report, entry, rules, now) {
        Freshness::Stale => (PluginState::Stale, None),
        Freshness::Ahead => (PluginState::ClockSkew, None),
        Freshness::Fresh { until } => {
            due.push(until);
            match report.status {
                PluginStatus::Healthy => (PluginState::Healthy, None),
                PluginStatus::Unhealthy => (PluginState::Unhealthy, detail()),
                PluginStatus::Error => (PluginState::Error, detail()),
            }
        }
    }
}

/// Evaluates a plugin without a report, which counts as missing only some time after its API server started.
fn evaluate_missing(
    node: &ExpectedNode,
    key: &str,
    rules: &RollupRules,
    known: Option<&StoredState>,
    rollup_state: &mut RollupState,
    now: ClockReading,
    due: &mut Vec<Duration>,
) -> PluginState {
    let plugin = (node.name.clone(), key.to_owned());
    if !node.running {
        rollup_state.awaited.remove(&plugin);
        return PluginState::NotYetObserved;
    }
    let deadline = rules.stale_after(None);
    // A restarted process does not grant a new deadline.
    let was_missing = known.is_some_and(|known| known.state == PluginState::NeverReported);
    if was_missing {
        return PluginState::NeverReported;
    }
    if rollup_state.states.get(&plugin).is_some_and(|(state, _)| *state == PluginState::NeverReported) {
        return PluginState::NeverReported;
    }
    let since = *rollup_state.awaited.entry(plugin).or_insert(now.monotonic);
    if now.monotonic.saturating_sub(since) > deadline {
        return PluginState::NeverReported;
    }
    due.push(since.saturating_add(deadline).saturating_add(INSTANT));
    PluginState::NotYetObserved
}

/// Returns the start of the state. It is stable while the state is unchanged, also across restarts, because a time that changes with
/// every reconcile would cause a write each time.
fn state_start(
    state: PluginState,
    report: Option<&PluginReport>,
    known: Option<&StoredState>,
    before: Option<&(PluginState, Timestamp)>,
    now: ClockReading,
) -> Timestamp {
    match (before, known) {
        (Some((same, since)), _) if *same == state => return *since,
        (None, Some(known)) if known.state == state => return known.since,
        _ => {}
    }
    match (state, report) {
        (
            PluginState::Healthy | PluginState::Unhealthy | PluginState::Error | PluginState::Stale,
            Some(report),
        ) => whole_seconds(report.checked),
        _ => whole_seconds(now.wall),
    }
}

/// Truncates to whole seconds, the precision of stored times.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
