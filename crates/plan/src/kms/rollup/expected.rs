//! Which plugins are expected to report. The arguments of the reporters in the pods of API servers decide; without such pods, the
//! reports do. The encryption configuration is never read, because the KMS that is judged may encrypt it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::kms::{KeyRole, key_id};

use super::freshness::INSTANT;
use super::index::stale_after;
use super::input::{
    ApiServer, ClockReading, ExpectedNode, ExpectedPlugin, ExpectedReporters, Inputs, Reports, RollupRules,
};
use super::state::{ObservedEntry, RollupState};
use crate::kms::reporter_args::ReporterArgs;

/// Placeholder key of nodes that are expected to report while no key is known.
const UNKNOWN_KEY: &str = "-";

/// A node and the instance of the reporter on it.
type Writer<'a> = (&'a str, Option<&'a str>);

/// Determines the expected reporters. Adds to `due` the times at which they may change without new inputs.
pub(super) fn expect(
    rules: &RollupRules,
    inputs: &Inputs,
    reports: &Reports,
    state: &RollupState,
    now: ClockReading,
    due: &mut Vec<Duration>,
) -> ExpectedReporters {
    let writers = expected_writers(rules, inputs, reports, state, now, due);
    let keys = Keys::new(inputs, reports, &writers);
    let nodes: Vec<ExpectedNode> = writers
        .iter()
        .map(|(writer, source)| ExpectedNode {
            name: writer.0.to_owned(),
            running: source.is_running(),
            plugins: keys.of_writer(*writer, source.reporter()),
            interval: source.reporter().map(|reporter| reporter.interval),
        })
        .collect();
    // If an input cannot be read, it is unknown whether plugins are deployed.
    let kms = !nodes.is_empty() || !inputs.unavailable.is_empty();
    ExpectedReporters { kms, nodes, unavailable: inputs.unavailable.clone() }
}

/// Why a reporter is expected.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// Its pod exists.
    Pod(&'a ApiServer),
    /// Its pod does not exist yet.
    PlannedPod,
    /// It has reported, or the spec lists its node.
    Listed,
}

impl<'a> Source<'a> {
    fn is_running(self) -> bool {
        match self {
            Self::Pod(server) => server.has_started,
            Self::PlannedPod => false,
            Self::Listed => true,
        }
    }

    fn reporter(self) -> Option<&'a ReporterArgs> {
        match self {
            Self::Pod(server) => server.reporter.as_ref(),
            Self::PlannedPod | Self::Listed => None,
        }
    }
}

fn expected_writers<'a>(
    rules: &RollupRules,
    inputs: &'a Inputs,
    reports: &'a Reports,
    state: &RollupState,
    now: ClockReading,
    due: &mut Vec<Duration>,
) -> BTreeMap<Writer<'a>, Source<'a>> {
    let servers = inputs.servers.iter().filter_map(|server| {
        let reporter = server.reporter.as_ref()?;
        Some(((server.node.as_str(), reporter.instance.as_deref()), Source::Pod(server)))
    });
    let mut writers: BTreeMap<Writer<'a>, Source<'a>> = servers.collect();
    if !inputs.only_nodes.is_empty() {
        writers.retain(|(node, _), _| inputs.only_nodes.contains(*node));
        for node in &inputs.only_nodes {
            if !writers.keys().any(|(known, _)| known == node) {
                writers.insert((node, None), Source::Listed);
            }
        }
        return writers;
    }
    if writers.is_empty() {
        return reporting_writers(rules, inputs, reports, state, now, due);
    }
    let with_pod: BTreeSet<&str> = inputs.servers.iter().map(|server| server.node.as_str()).collect();
    for node in inputs.planned_nodes.iter().filter(|node| !with_pod.contains(node.as_str())) {
        writers.insert((node, None), Source::PlannedPod);
    }
    writers
}

/// Returns the writers of the reports, without those that stopped so long ago that their nodes must be gone. If all stopped, none is
/// forgotten, unless there are pods without reporters: then KMS encryption was switched off.
fn reporting_writers<'a>(
    rules: &RollupRules,
    inputs: &Inputs,
    reports: &'a Reports,
    state: &RollupState,
    now: ClockReading,
    due: &mut Vec<Duration>,
) -> BTreeMap<Writer<'a>, Source<'a>> {
    let mut live = BTreeSet::new();
    let mut recent = BTreeSet::new();
    let mut all = BTreeSet::new();
    let mut judge = |writer: Writer<'a>, interval: Option<Duration>, entry: Option<&ObservedEntry>| {
        let limit = stale_after(interval.unwrap_or(rules.interval));
        let begin = entry.map_or(now.monotonic, |entry| entry.last_change);
        for (limit, set) in [(limit, &mut live), (limit.saturating_mul(2), &mut recent)] {
            let end = begin.saturating_add(limit);
            if now.monotonic <= end {
                due.push(end.saturating_add(INSTANT));
                set.insert(writer);
            }
        }
        all.insert(writer);
    };
    for report in &reports.valid {
        judge((&report.node, report.instance()), report.interval, state.entry(report));
    }
    for malformed in &reports.malformed {
        judge((&malformed.node, malformed.instance.as_deref()), None, state.entry_of_malformed(malformed));
    }
    let are_pods_known = inputs.unavailable.is_empty();
    let writers = if !are_pods_known {
        all
    } else if !inputs.servers.is_empty() && live.is_empty() {
        BTreeSet::new()
    } else if recent.is_empty() {
        all
    } else {
        recent
    };
    writers.into_iter().map(|writer| (writer, Source::Listed)).collect()
}

/// The keys of reporters, and their roles.
struct Keys<'a> {
    inputs: &'a Inputs,
    /// Keys that expected writers have, by instance. Each is expected of all writers without known arguments.
    found: BTreeMap<Option<&'a str>, BTreeSet<(Option<u64>, &'a str)>>,
    /// Roles in reports, by node and key.
    reported_roles: BTreeMap<(&'a str, &'a str), KeyRole>,
    /// Roles on any node.
    roles: BTreeMap<&'a str, KeyRole>,
}

impl<'a> Keys<'a> {
    fn new(inputs: &'a Inputs, reports: &'a Reports, writers: &BTreeMap<Writer<'a>, Source<'a>>) -> Self {
        let mut keys =
            Self { inputs, found: BTreeMap::new(), reported_roles: BTreeMap::new(), roles: BTreeMap::new() };
        for report in &reports.valid {
            let (number, instance) = key_id::split_instance(&report.key);
            if !writers.contains_key(&(report.node.as_str(), instance)) {
                continue;
            }
            keys.add(number, instance);
            if let Some(role) = report.role {
                keys.reported_roles.insert((&report.node, number), role);
                keys.roles.insert(number, role);
            }
        }
        for ((_, instance), source) in writers {
            let Some(reporter) = source.reporter() else { continue };
            for number in &reporter.keys {
                keys.add(number, *instance);
                if let Some(role) = configured_role(reporter, number) {
                    keys.roles.insert(number, role);
                }
            }
        }
        keys
    }

    fn add(&mut self, number: &'a str, instance: Option<&'a str>) {
        self.found.entry(instance).or_default().insert((number.parse().ok(), number));
    }

    /// Returns the plugins of a writer, write keys first.
    fn of_writer(
        &self,
        (node, instance): Writer<'_>,
        reporter: Option<&ReporterArgs>,
    ) -> Vec<ExpectedPlugin> {
        let arguments = reporter.map(|reporter| reporter.keys.as_slice()).unwrap_or_default();
        let found = self.found.get(&instance).into_iter().flatten().rev().map(|(_, number)| *number);
        let mut numbers: Vec<&str> = if !self.inputs.only_keys.is_empty() {
            self.inputs.only_keys.iter().map(|key| key.key_id.as_str()).collect()
        } else if !arguments.is_empty() {
            arguments.iter().map(String::as_str).collect()
        } else {
            found.collect()
        };
        if numbers.is_empty() {
            numbers.push(UNKNOWN_KEY);
        }
        let roles: Vec<Option<KeyRole>> =
            numbers.iter().map(|number| self.role(node, number, reporter)).collect();
        // Without any information, the first key encrypts: reporters list the newest key first.
        let is_write_known = roles.contains(&Some(KeyRole::Write));
        let assumed_write = (!is_write_known).then(|| roles.iter().position(Option::is_none)).flatten();
        let is_role_assumed = assumed_write.is_some() && arguments.is_empty() && numbers.len() > 1;
        let mut plugins: Vec<ExpectedPlugin> = numbers
            .into_iter()
            .zip(roles)
            .enumerate()
            .map(|(index, (number, role))| {
                let assumed = if assumed_write == Some(index) { KeyRole::Write } else { KeyRole::Read };
                ExpectedPlugin {
                    key: key_id::with_instance(number, instance),
                    role: role.unwrap_or(assumed),
                    is_role_assumed: is_role_assumed && role.is_none(),
                }
            })
            .collect();
        plugins.sort_by_key(|plugin| plugin.role == KeyRole::Read);
        plugins
    }

    /// Returns the role of a key, if it is known. The sources are, in order of precedence: the arguments of the node's reporter, its
    /// reports, the spec, and other nodes.
    fn role(&self, node: &str, number: &str, reporter: Option<&ReporterArgs>) -> Option<KeyRole> {
        let listed = self.inputs.only_keys.iter().find(|key| key.key_id == number).map(|key| key.role);
        reporter
            .and_then(|reporter| configured_role(reporter, number))
            .or_else(|| self.reported_roles.get(&(node, number)).copied())
            .or(listed)
            .or_else(|| self.roles.get(number).copied())
    }
}

/// Returns the role of a key according to the arguments of a reporter, unless they do not name the write keys.
fn configured_role(reporter: &ReporterArgs, number: &str) -> Option<KeyRole> {
    let is_write = reporter.write_keys.iter().any(|key| key == number);
    (!reporter.write_keys.is_empty()).then_some(if is_write { KeyRole::Write } else { KeyRole::Read })
}
