//! Removal of obsolete reports. A report is removed only if it is unexpected and has not changed for a long time, so that the
//! aggregator never competes with a live reporter.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::freshness::INSTANT;
use super::input::{ClockReading, ExpectedReporters, PluginReport, ReportFormat, Reports, RollupRules};
use super::plugin_state::newest;
use super::state::{ObservedEntry, RollupState};

/// Report to remove, identified precisely enough that a newer report in its place is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportRemoval {
    /// Condition of a node.
    Condition {
        /// Node.
        node: String,
    },
    /// Typed report.
    Typed {
        /// Node.
        node: String,
        /// Key number.
        key: String,
        /// Probe time.
        checked: Timestamp,
    },
}

/// Returns the reports to remove. Only the local clock measures how long a report has not changed, because a reporter with a wrong
/// clock may be alive.
pub(super) fn removals(
    rules: &RollupRules,
    reports: &Reports,
    expected: &ExpectedReporters,
    state: &RollupState,
    now: ClockReading,
    due: &mut Vec<Duration>,
) -> Vec<ReportRemoval> {
    let mut is_expired = |interval, entry: Option<&ObservedEntry>| {
        let limit = rules.stale_after(interval);
        // Without any plugin, a shorter time is safe.
        let limit = if expected.kms { limit.saturating_mul(2) } else { limit };
        let end = entry.map_or(Duration::MAX, |entry| entry.last_change.saturating_add(limit));
        let expired = now.monotonic > end;
        if !expired {
            due.push(end.saturating_add(INSTANT));
        }
        expired
    };
    let mut removals = Vec::new();
    for report in reports.valid.iter().filter(|report| report.format == ReportFormat::Typed) {
        if !is_needed(report, reports, expected) && is_expired(report.interval, state.entry(report)) {
            removals.push(ReportRemoval::Typed {
                node: report.node.clone(),
                key: report.key.clone(),
                checked: report.checked,
            });
        }
    }
    for node in nodes_with_condition(reports) {
        let mut of_node = reports
            .valid
            .iter()
            .filter(|one| one.format == ReportFormat::Condition && one.node == node)
            .peekable();
        let obsolete = if of_node.peek().is_some() {
            // All reports of the condition are removed together or not at all.
            of_node
                .all(|one| !is_needed(one, reports, expected) && is_expired(one.interval, state.entry(one)))
        } else {
            let unreadable = reports
                .malformed
                .iter()
                .find(|one| one.format == ReportFormat::Condition && one.node == node);
            let is_expected = expected.kms && expected.nodes.iter().any(|one| one.name == node);
            !is_expected && is_expired(None, unreadable.and_then(|one| state.entry_of_malformed(one)))
        };
        if obsolete {
            removals.push(ReportRemoval::Condition { node: node.to_owned() });
        }
    }
    removals.sort();
    removals
}

/// Reports whether a report is in use: it is expected and not superseded by a newer report in another format.
fn is_needed(report: &PluginReport, reports: &Reports, expected: &ExpectedReporters) -> bool {
    let is_expected = expected.kms
        && expected
            .nodes
            .iter()
            .any(|node| node.name == report.node && node.keys.iter().any(|key| key.key_id == report.key));
    is_expected
        && newest(reports, &report.node, &report.key).is_some_and(|newest| newest.format == report.format)
}

/// Returns the nodes that have a condition.
fn nodes_with_condition(reports: &Reports) -> Vec<&str> {
    let readable =
        reports.valid.iter().filter(|one| one.format == ReportFormat::Condition).map(|one| one.node.as_str());
    let unreadable = reports
        .malformed
        .iter()
        .filter(|one| one.format == ReportFormat::Condition)
        .map(|one| one.node.as_str());
    let mut nodes: Vec<&str> = readable.chain(unreadable).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
