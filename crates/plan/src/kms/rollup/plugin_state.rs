//! State of each expected plugin.

use std::time::Duration;

use api::kms::{KeyRole, PluginStatus, key_id};
use k8s_openapi::jiff::Timestamp;

use super::freshness::{self, Freshness, INSTANT};
use super::index::Index;
use super::input::{
    ClockReading, ExpectedNode, ExpectedPlugin, ExpectedReporters, PluginReport, RollupRules,
};
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
    /// Key number, followed by the instance of the reporter if it has one.
    pub key: String,
    /// Whether the key encrypts new data.
    pub role: KeyRole,
    /// Whether the role was guessed from the key numbers.
    pub is_role_assumed: bool,
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

/// What the evaluation of plugins depends on.
pub(super) struct Evaluation<'a> {
    pub(super) rules: &'a RollupRules,
    pub(super) index: &'a Index<'a>,
    pub(super) stored_states: &'a [StoredState],
    pub(super) now: ClockReading,
}

/// Evaluates each expected plugin, sorted by node and key, latest key first. Adds to `due` the times at which a state may change
/// without new reports.
pub(super) fn evaluate(
    evaluation: &Evaluation<'_>,
    expected: &ExpectedReporters,
    memory: &mut RollupState,
    due: &mut Vec<Duration>,
) -> Vec<PluginObservation> {
    let mut plugins = Vec::new();
    for node in &expected.nodes {
        for plugin in &node.plugins {
            plugins.push(evaluation.evaluate_plugin(node, plugin, memory, due));
        }
    }
    plugins.sort_by(|a, b| a.node.cmp(&b.node).then_with(|| sort_key(&b.key).cmp(&sort_key(&a.key))));
    let is_expected = |node: &str, key: &str| evaluation.index.is_expected(node, key);
    memory.states.retain(|(node, key), _| is_expected(node, key));
    memory.awaited.retain(|(node, key), _| is_expected(node, key));
    memory.starting.retain(|(node, key), _| is_expected(node, key));
    memory.forget_removed(is_expected);
    plugins
}

/// Returns the sort key of a key number. Non-numeric keys sort last.
fn sort_key(key: &str) -> (Option<u64>, &str) {
    (key_id::split_instance(key).0.parse().ok(), key)
}

impl Evaluation<'_> {
    fn evaluate_plugin(
        &self,
        node: &ExpectedNode,
        plugin: &ExpectedPlugin,
        memory: &mut RollupState,
        due: &mut Vec<Duration>,
    ) -> PluginObservation {
        let (name, key) = (node.name.as_str(), plugin.key.as_str());
        let known = self.stored_states.iter().find(|known| known.matches(name, key));
        let id = (name.to_owned(), key.to_owned());
        let previous = memory.states.get(&id).map(|(state, _)| *state).or(known.map(|known| known.state));
        let malformed = self.index.malformed(name, key);
        let found = newest(self.index.of_plugin(name, key).iter().copied(), memory);
        // A report that others removed counts until it is stale.
        let found = found.or_else(|| match malformed {
            Some(_) => None,
            None => newest(memory.removed(name, key), memory),
        });
        let found = found.cloned();
        let is_late = self.is_late(node, &id, found.is_some(), previous, memory, due);
        let (state, detail) = match (&found, malformed) {
            (Some(report), _) => self.evaluate_report(report, previous, is_late, memory, due),
            (None, Some(malformed)) => (PluginState::Malformed, Some(malformed.why.clone())),
            (None, None) => (missing_state(previous, is_late), None),
        };
        if !matches!(state, PluginState::NeverReported | PluginState::NotYetObserved) {
            memory.awaited.remove(&id);
        }
        let flapping =
            found.as_ref().and_then(|report| memory.entry(report)).and_then(|entry| entry.flapping);
        let since = state_start(state, found.as_ref(), known, memory.states.get(&id), self.now);
        memory.states.insert(id, (state, since));
        let remote_key_id =
            found.filter(|_| state == PluginState::Healthy).and_then(|report| report.remote_key_id);
        PluginObservation {
            node: node.name.clone(),
            key: plugin.key.clone(),
            role: plugin.role,
            is_role_assumed: plugin.is_role_assumed,
            state,
            since: flapping.unwrap_or(since),
            flapping: flapping.is_some(),
            // A placeholder is not a key ID: two nodes without a key ID do not agree.
            remote_key_id: remote_key_id.filter(|id| !id.is_empty() && !key_id::is_placeholder(id)),
            detail,
        }
    }

    /// Returns whether a report that is missing or stale now should have arrived. A pod has some time to start its reporter, and a
    /// reporter has some time for its first report.
    fn is_late(
        &self,
        node: &ExpectedNode,
        id: &(String, String),
        has_report: bool,
        previous: Option<PluginState>,
        memory: &mut RollupState,
        due: &mut Vec<Duration>,
    ) -> bool {
        let (begin, limit) = if node.running {
            let was_starting = memory.starting.remove(id).is_some();
            let is_awaited = match previous {
                None => !has_report,
                Some(previous) => was_starting || previous == PluginState::NotYetObserved,
            };
            if !is_awaited {
                return true;
            }
            let begin = *memory.awaited.entry(id.clone()).or_insert(self.now.monotonic);
            (begin, self.index.stale_after(&node.name, None))
        } else {
            memory.awaited.remove(id);
            let begin = *memory.starting.entry(id.clone()).or_insert(self.now.monotonic);
            (begin, self.rules.rollout_timeout)
        };
        if self.now.monotonic.saturating_sub(begin) > limit {
            return true;
        }
        due.push(begin.saturating_add(limit).saturating_add(INSTANT));
        false
    }

    fn evaluate_report(
        &self,
        report: &PluginReport,
        previous: Option<PluginState>,
        is_late: bool,
        memory: &RollupState,
        due: &mut Vec<Duration>,
    ) -> (PluginState, Option<String>) {
        // Every report has been observed before.
        let Some(entry) = memory.entry(report) else { return (PluginState::NotYetObserved, None) };
        let limit = self.index.stale_after(&report.node, report.interval);
        match freshness::evaluate(report, entry, limit, self.rules.margin, self.now) {
            // A pod with a healthy plugin is replaced. A plugin that was failing or unknown is not assumed to be healthy now.
            Freshness::Stale if !is_late && report.status == PluginStatus::Healthy && was_good(previous) => {
                (PluginState::NotYetObserved, None)
            }
            Freshness::Stale => (PluginState::Stale, None),
            Freshness::Ahead => (PluginState::ClockSkew, None),
            Freshness::Fresh { until } => {
                due.push(until);
                match report.status {
                    PluginStatus::Healthy => (PluginState::Healthy, None),
                    PluginStatus::Unhealthy => (PluginState::Unhealthy, report.detail.clone()),
                    PluginStatus::Error => (PluginState::Error, report.detail.clone()),
                }
            }
        }
    }
}

/// Returns whether nothing was wrong with a plugin.
fn was_good(previous: Option<PluginState>) -> bool {
    matches!(previous, None | Some(PluginState::Healthy | PluginState::NotYetObserved))
}

/// Returns the latest report of a plugin. A reporter that switched the format leaves its old report behind.
pub(super) fn newest<'a>(
    reports: impl Iterator<Item = &'a PluginReport>,
    memory: &RollupState,
) -> Option<&'a PluginReport> {
    reports.max_by_key(|report| (memory.entry(report).map(|entry| entry.last_change), &report.format))
}

/// Evaluates a plugin without a report. `previous` is its last state, which a restarted process reads from the stored message.
fn missing_state(previous: Option<PluginState>, is_late: bool) -> PluginState {
    match previous {
        None | Some(PluginState::NotYetObserved) if !is_late => PluginState::NotYetObserved,
        None | Some(PluginState::NotYetObserved | PluginState::NeverReported) => PluginState::NeverReported,
        // Someone removed the report. Unknown, because it is not known to be healthy.
        Some(_) => PluginState::Stale,
    }
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
