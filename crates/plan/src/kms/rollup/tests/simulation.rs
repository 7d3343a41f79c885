//! Simulation of reporting nodes, a manual clock and an object that stores conditions.

use std::collections::BTreeMap;
use std::time::Duration;

use api::kms::{ExpectedKey, KeyRole, PluginStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::kms::rollup::{
    ClockReading, ExpectedNode, ExpectedReporters, MalformedReport, PluginReport, ReportFormat,
    ReportRemoval, Reports, RollupDecision, RollupRules, RollupState, decide, update_conditions,
};

pub(super) const WRITE: &str = "2";
pub(super) const READ: &str = "1";

pub(super) struct Simulation {
    pub(super) rules: RollupRules,
    pub(super) expected: ExpectedReporters,
    pub(super) reports: Reports,
    pub(super) state: RollupState,
    pub(super) stored: Vec<Condition>,
    /// Offset of the local wall clock in seconds.
    pub(super) local_clock_offset: i64,
    /// Offsets of the node clocks in seconds.
    pub(super) clocks: BTreeMap<String, i64>,
    /// Number of writes to the object.
    pub(super) writes: usize,
    seconds: i64,
}

impl Simulation {
    /// Creates nodes with one write plugin and one read plugin each.
    pub(super) fn new(nodes: &[&str]) -> Self {
        let mut simulation = Self {
            rules: RollupRules::default(),
            expected: ExpectedReporters { kms: true, nodes: Vec::new() },
            reports: Reports::default(),
            state: RollupState::default(),
            stored: Vec::new(),
            local_clock_offset: 0,
            clocks: BTreeMap::new(),
            writes: 0,
            seconds: 0,
        };
        nodes.iter().for_each(|node| simulation.expect(node));
        simulation
    }

    pub(super) fn expect(&mut self, node: &str) {
        let key = |key_id: &str, role| ExpectedKey { key_id: key_id.into(), role };
        let keys = vec![key(WRITE, KeyRole::Write), key(READ, KeyRole::Read)];
        self.expected.nodes.push(ExpectedNode { name: node.into(), running: true, keys });
    }

    pub(super) fn node(&mut self, name: &str) -> &mut ExpectedNode {
        self.expected.nodes.iter_mut().find(|node| node.name == name).unwrap()
    }

    pub(super) fn advance(&mut self, seconds: i64) {
        self.seconds += seconds;
    }

    pub(super) fn now(&self) -> ClockReading {
        let monotonic = Duration::from_secs(u64::try_from(self.seconds).unwrap() + 1000);
        ClockReading { monotonic, wall: self.wall_time(self.local_clock_offset) }
    }

    pub(super) fn wall_time(&self, offset: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.seconds + offset).unwrap()
    }

    /// Adds or replaces the report of one plugin.
    pub(super) fn report(
        &mut self,
        format: ReportFormat,
        node: &str,
        key: &str,
        status: PluginStatus,
        detail: Option<&str>,
    ) {
        let checked = self.wall_time(self.clocks.get(node).copied().unwrap_or(0));
        let report = PluginReport {
            format,
            node: node.into(),
            key: key.into(),
            status,
            checked,
            remote_key_id: Some("kek".into()),
            detail: detail.map(Into::into),
            interval: None,
        };
        let is_same = |one: &PluginReport| one.format == format && one.node == node && one.key == key;
        self.reports.valid.retain(|one| !is_same(one));
        self.reports.valid.push(report);
    }

    pub(super) fn report_status(&mut self, node: &str, key: &str, status: PluginStatus) {
        let detail = (status != PluginStatus::Healthy).then_some("Timeout: no answer within 5s");
        self.report(ReportFormat::Typed, node, key, status, detail);
    }

    pub(super) fn report_healthy(&mut self, node: &str) {
        self.report_status(node, WRITE, PluginStatus::Healthy);
        self.report_status(node, READ, PluginStatus::Healthy);
    }

    pub(super) fn report_key_id(&mut self, node: &str, id: &str) {
        self.report_healthy(node);
        let reports = self.reports.valid.iter_mut().filter(|one| one.node == node);
        reports.for_each(|report| report.remote_key_id = (!id.is_empty()).then(|| id.into()));
    }

    pub(super) fn report_malformed(&mut self, node: &str) {
        self.reports.malformed.retain(|one| one.node != node);
        let (text, why) = ("{".into(), "EOF while parsing".into());
        self.reports.malformed.push(MalformedReport {
            format: ReportFormat::Condition,
            node: node.into(),
            text,
            why,
        });
    }

    /// Runs one reconcile and stores its result.
    pub(super) fn reconcile(&mut self) -> RollupDecision {
        let now = self.now();
        let state = std::mem::take(&mut self.state);
        let decision = decide(&self.rules, &self.reports, &self.expected, &self.stored, state, now);
        let (conditions, _) =
            update_conditions(decision.conditions.as_ref(), &self.stored, 1, &Time(now.wall));
        if conditions != self.stored {
            self.writes += 1;
            self.stored = conditions;
        }
        self.state = decision.state.clone();
        decision
    }

    /// Simulates a restart, which loses the state.
    pub(super) fn restart(&mut self) {
        self.state = RollupState::default();
    }

    /// Every node reports healthy plugins every 30 seconds, each followed by a reconcile.
    pub(super) fn run_healthy(&mut self, seconds: i64) {
        let nodes: Vec<String> = self.expected.nodes.iter().map(|node| node.name.clone()).collect();
        for _ in 0..seconds / 30 {
            nodes.iter().for_each(|node| self.report_healthy(node));
            self.reconcile();
            self.advance(30);
        }
    }

    /// Returns status and reason of a stored condition.
    pub(super) fn condition(&self, type_: &str) -> (&str, &str) {
        let found = self.stored.iter().find(|one| one.type_ == type_);
        found.map_or(("", ""), |one| (one.status.as_str(), one.reason.as_str()))
    }

    pub(super) fn degraded(&self) -> (&str, &str) {
        self.condition("KMSPluginsDegraded")
    }

    pub(super) fn message(&self) -> &str {
        self.stored.iter().find(|one| one.type_ == "KMSPluginsDegraded").map_or("", |one| &one.message)
    }

    /// Removes reports.
    pub(super) fn remove(&mut self, removals: &[ReportRemoval]) {
        for removal in removals {
            match removal {
                ReportRemoval::Typed { node, key, checked } => self.reports.valid.retain(|one| {
                    !(one.format == ReportFormat::Typed
                        && one.node == *node
                        && one.key == *key
                        && one.checked == *checked)
                }),
                ReportRemoval::Condition { node } => {
                    self.reports
                        .valid
                        .retain(|one| one.format != ReportFormat::Condition || one.node != *node);
                    self.reports
                        .malformed
                        .retain(|one| one.format != ReportFormat::Condition || one.node != *node);
                }
            }
        }
    }
}
