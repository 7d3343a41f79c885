//! Removal of obsolete reports. A report is removed only if it is unexpected and has not changed for a long time, so that the
//! aggregator never competes with a live reporter.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::kms::key_id;
use k8s_openapi::jiff::Timestamp;

use super::freshness::INSTANT;
use super::index::Index;
use super::input::{ClockReading, ExpectedReporters, PluginReport, ReportFormat, Reports};
use super::plugin_state::newest;
use super::state::{ObservedEntry, RollupState};

/// Report to remove, identified precisely enough that a newer report in its place is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportRemoval {
    /// Condition of a reporter.
    Condition {
        /// Node.
        node: String,
        /// Instance of the reporter.
        instance: Option<String>,
    },
    /// Typed report.
    Typed {
        /// Node.
        node: String,
        /// Key number, followed by the instance of the reporter if it has one.
        key: String,
        /// Probe time.
        checked: Timestamp,
    },
    /// Object of a node.
    Object {
        /// Name of the object.
        name: String,
    },
}

/// Place that holds several reports, which are removed together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Condition(String, Option<String>),
    Object(String),
}

/// Returns the reports to remove. Only the local clock measures how long a report has not changed, because a reporter with a wrong
/// clock may be alive.
pub(super) fn removals(
    index: &Index<'_>,
    reports: &Reports,
    expected: &ExpectedReporters,
    state: &RollupState,
    now: ClockReading,
    due: &mut Vec<Duration>,
) -> Vec<ReportRemoval> {
    let mut cleaner = Cleaner { index, expected, state, now, due };
    let mut removals = Vec::new();
    // Reports that must all be obsolete, and whether those so far are.
    let mut holders: BTreeMap<Holder, bool> = BTreeMap::new();
    for report in &reports.valid {
        let is_obsolete = cleaner.is_obsolete(report);
        match holder(&report.format, &report.node, report.instance()) {
            Some(holder) => *holders.entry(holder).or_insert(true) &= is_obsolete,
            None if is_obsolete || cleaner.is_misleading(report) => removals.push(ReportRemoval::Typed {
                node: report.node.clone(),
                key: report.key.clone(),
                checked: report.checked,
            }),
            None => {}
        }
    }
    for malformed in &reports.malformed {
        let holder = holder(&malformed.format, &malformed.node, malformed.instance.as_deref());
        if let Some(holder) = holder {
            let is_obsolete = expected.unavailable.is_empty()
                && !index.is_expected_node(&malformed.node)
                && cleaner.is_expired(&malformed.node, None, state.entry_of_malformed(malformed));
            *holders.entry(holder).or_insert(true) &= is_obsolete;
        }
    }
    let obsolete: BTreeSet<Holder> =
        holders.into_iter().filter(|(_, is_obsolete)| *is_obsolete).map(|(holder, _)| holder).collect();
    removals.extend(obsolete.into_iter().map(|holder| match holder {
        Holder::Condition(node, instance) => ReportRemoval::Condition { node, instance },
        Holder::Object(name) => ReportRemoval::Object { name },
    }));
    removals.sort();
    removals
}

fn holder(format: &ReportFormat, node: &str, instance: Option<&str>) -> Option<Holder> {
    match format {
        ReportFormat::Condition => Some(Holder::Condition(node.to_owned(), instance.map(str::to_owned))),
        ReportFormat::Typed => None,
        ReportFormat::Object(name) => Some(Holder::Object(name.clone())),
    }
}

struct Cleaner<'a> {
    index: &'a Index<'a>,
    expected: &'a ExpectedReporters,
    state: &'a RollupState,
    now: ClockReading,
    due: &'a mut Vec<Duration>,
}

impl Cleaner<'_> {
    /// Returns whether a report is not in use and has not changed for a long time. While an input cannot be read, it is unknown what is
    /// in use.
    fn is_obsolete(&mut self, report: &PluginReport) -> bool {
        self.expected.unavailable.is_empty()
            && !self.is_needed(report)
            && self.is_expired(&report.node, report.interval, self.state.entry(report))
    }

    /// Returns whether a report is in use: it is expected and not superseded by a newer report in another format.
    fn is_needed(&self, report: &PluginReport) -> bool {
        let all = self.index.of_plugin(&report.node, &report.key).iter().copied();
        self.index.is_expected(&report.node, &report.key)
            && newest(all, self.state).is_some_and(|newest| newest.format == report.format)
    }

    /// Returns whether a reporter stopped while its plugin had no key ID. Readers that compare only key IDs would take a placeholder
    /// that does not change for the ID of a key.
    fn is_misleading(&mut self, report: &PluginReport) -> bool {
        let is_placeholder = report.remote_key_id.as_deref().is_some_and(key_id::is_placeholder);
        let limit = self.index.stale_after(&report.node, report.interval);
        is_placeholder && self.is_unchanged_for(limit, self.state.entry(report))
    }

    fn is_expired(&mut self, node: &str, interval: Option<Duration>, entry: Option<&ObservedEntry>) -> bool {
        let limit = self.index.stale_after(node, interval);
        // Without any plugin, a shorter time is safe.
        let limit = if self.expected.kms { limit.saturating_mul(2) } else { limit };
        self.is_unchanged_for(limit, entry)
    }

    fn is_unchanged_for(&mut self, limit: Duration, entry: Option<&ObservedEntry>) -> bool {
        let end = entry.map_or(Duration::MAX, |entry| entry.last_change.saturating_add(limit));
        let is_unchanged = self.now.monotonic > end;
        if !is_unchanged {
            self.due.push(end.saturating_add(INSTANT));
        }
        is_unchanged
    }
}
