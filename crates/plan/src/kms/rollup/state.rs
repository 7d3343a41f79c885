//! State kept between reconciles: when each report last changed by the local clock, and how often its status changed.

use std::collections::BTreeMap;
use std::time::Duration;

use api::kms::PluginStatus;
use k8s_openapi::jiff::Timestamp;

use super::input::{ClockReading, MalformedReport, PluginReport, ReportFormat, Reports};
use super::plugin_state::PluginState;

/// Number of status changes ...
const FLAP_COUNT: usize = 3;
/// ... within this time that count as flapping.
const FLAP_WINDOW: Duration = Duration::from_secs(600);

/// State kept for the reports of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RollupState {
    has_observed: bool,
    entries: BTreeMap<ReportId, ObservedEntry>,
    /// Time since when the report of a running plugin is missing.
    pub(super) awaited: BTreeMap<(String, String), Duration>,
    /// State of each plugin, and since when.
    pub(super) states: BTreeMap<(String, String), (PluginState, Timestamp)>,
    /// KMS key that all nodes use, and since when.
    pub(super) agreed: Option<Agreed>,
}

/// KMS key that all nodes use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) id: String,
    /// `None`: it had converged before this process started.
    pub(super) since: Option<Duration>,
    pub(super) wall: Timestamp,
}

/// Identity of a report in an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReportId {
    node: String,
    /// `None` for a malformed report.
    key: Option<String>,
    format: ReportFormat,
}

/// Last observed state of a report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObservedEntry {
    /// Value that changes with every write: the probe time, or the whole content of a malformed report.
    mark: String,
    /// Time at which the mark last changed or was first observed.
    pub(super) last_change: Duration,
    /// Whether the mark was observed to change, which proves that the reporter is alive regardless of its clock.
    pub(super) has_changed: bool,
    status: Option<PluginStatus>,
    changes: Vec<Duration>,
    /// Start of the current flapping.
    pub(super) flapping: Option<Timestamp>,
}

impl RollupState {
    /// Records the current reports and forgets removed ones.
    pub(super) fn observe(&mut self, reports: &Reports, now: ClockReading) {
        let mut previous = std::mem::take(&mut self.entries);
        for report in &reports.valid {
            let id = ReportId::new(report);
            let entry = self.observe_mark(previous.remove(&id), report.checked.to_string(), now);
            self.entries.insert(id, record_status(entry, report.status, now));
        }
        for malformed in &reports.malformed {
            let id = ReportId::of_malformed(malformed);
            let entry = self.observe_mark(previous.remove(&id), malformed.text.clone(), now);
            self.entries.insert(id, entry);
        }
    }

    fn observe_mark(
        &self,
        previous: Option<ObservedEntry>,
        mark: String,
        now: ClockReading,
    ) -> ObservedEntry {
        match previous {
            Some(entry) if entry.mark == mark => entry,
            Some(entry) => ObservedEntry { mark, last_change: now.monotonic, has_changed: true, ..entry },
            // A report that is new since an earlier observation was written since then.
            None => ObservedEntry {
                mark,
                last_change: now.monotonic,
                has_changed: self.has_observed,
                status: None,
                changes: Vec::new(),
                flapping: None,
            },
        }
    }

    /// Returns when each flapping report stops flapping if its status does not change again.
    pub(super) fn flapping_deadlines(&self) -> Vec<Duration> {
        let flapping = self.entries.values().filter(|entry| entry.flapping.is_some());
        flapping
            .filter_map(|entry| Some(*entry.changes.iter().rev().nth(FLAP_COUNT - 1)? + FLAP_WINDOW))
            .collect()
    }

    /// Returns the observed state of a report.
    pub(super) fn entry(&self, report: &PluginReport) -> Option<&ObservedEntry> {
        self.entries.get(&ReportId::new(report))
    }

    /// Returns the observed state of a malformed report.
    pub(super) fn entry_of_malformed(&self, malformed: &MalformedReport) -> Option<&ObservedEntry> {
        self.entries.get(&ReportId::of_malformed(malformed))
    }

    /// Reports whether there was an earlier observation.
    pub(super) fn has_observed(&self) -> bool {
        self.has_observed
    }

    pub(super) fn mark_observed(&mut self) {
        self.has_observed = true;
    }
}

/// Records the status and whether it is flapping.
fn record_status(mut entry: ObservedEntry, status: PluginStatus, now: ClockReading) -> ObservedEntry {
    if entry.status.is_some_and(|before| before != status) {
        entry.changes.push(now.monotonic);
    }
    entry.status = Some(status);
    entry.changes.retain(|at| now.monotonic.saturating_sub(*at) < FLAP_WINDOW);
    entry.flapping = (entry.changes.len() >= FLAP_COUNT).then(|| entry.flapping.unwrap_or(now.wall));
    entry
}

impl ReportId {
    fn new(report: &PluginReport) -> Self {
        Self { node: report.node.clone(), key: Some(report.key.clone()), format: report.format }
    }

    fn of_malformed(malformed: &MalformedReport) -> Self {
        Self { node: malformed.node.clone(), key: None, format: malformed.format }
    }
}
