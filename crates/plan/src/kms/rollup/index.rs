//! Index of reports and expected plugins, built once per reconcile: with hundreds of nodes, a scan per plugin would be quadratic.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use api::kms::key_id;

use super::input::{ExpectedReporters, MalformedReport, PluginReport, Reports, RollupRules};

/// Number of intervals without a change after which a report is stale. Tolerates a few lost writes.
const STALE_AFTER: u32 = 4;

/// Reports by plugin, and what is expected.
pub(super) struct Index<'a> {
    /// By node and key.
    reports: HashMap<&'a str, HashMap<&'a str, Vec<&'a PluginReport>>>,
    /// By node and instance.
    malformed: HashMap<(&'a str, Option<&'a str>), &'a MalformedReport>,
    expected: HashSet<(&'a str, &'a str)>,
    nodes: HashSet<&'a str>,
    /// Intervals according to the pods, by node.
    intervals: HashMap<&'a str, Duration>,
    default_interval: Duration,
}

impl<'a> Index<'a> {
    pub(super) fn new(rules: &RollupRules, reports: &'a Reports, expected: &'a ExpectedReporters) -> Self {
        let mut index = Self {
            reports: HashMap::new(),
            malformed: HashMap::new(),
            expected: HashSet::new(),
            nodes: HashSet::new(),
            intervals: HashMap::new(),
            default_interval: rules.interval,
        };
        for report in &reports.valid {
            let of_node = index.reports.entry(&report.node).or_default();
            of_node.entry(&report.key).or_default().push(report);
        }
        for malformed in &reports.malformed {
            let writer = (malformed.node.as_str(), malformed.instance.as_deref());
            index.malformed.entry(writer).or_insert(malformed);
        }
        for node in expected.nodes.iter().filter(|_| expected.kms) {
            index.nodes.insert(&node.name);
            index
                .expected
                .extend(node.plugins.iter().map(|plugin| (node.name.as_str(), plugin.key.as_str())));
            if let Some(interval) = node.interval {
                // Instances of one node may differ: the longest tolerates both.
                let known = index.intervals.entry(&node.name).or_default();
                *known = interval.max(*known);
            }
        }
        index
    }

    /// Returns all reports of a plugin.
    pub(super) fn of_plugin(&self, node: &str, key: &str) -> &[&'a PluginReport] {
        let of_node = self.reports.get(node);
        of_node.and_then(|of_node| of_node.get(key)).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the malformed report of the reporter that should report a plugin.
    pub(super) fn malformed(&self, node: &str, key: &str) -> Option<&'a MalformedReport> {
        self.malformed.get(&(node, key_id::split_instance(key).1)).copied()
    }

    /// Returns whether a report of the plugin is expected.
    pub(super) fn is_expected(&self, node: &str, key: &str) -> bool {
        self.expected.contains(&(node, key))
    }

    /// Returns whether any report of the node is expected.
    pub(super) fn is_expected_node(&self, node: &str) -> bool {
        self.nodes.contains(node)
    }

    /// Returns the time after which an unchanged report of a node is stale. `reported` is the interval in the report.
    pub(super) fn stale_after(&self, node: &str, reported: Option<Duration>) -> Duration {
        let interval = reported.or_else(|| self.intervals.get(node).copied());
        stale_after(interval.unwrap_or(self.default_interval))
    }
}

/// Returns the time after which a report with this interval is stale.
pub(super) fn stale_after(interval: Duration) -> Duration {
    interval.saturating_mul(STALE_AFTER)
}
