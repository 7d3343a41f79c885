//! Nodes that report, a clock that is told to go on, and an object that stores conditions.

use std::collections::BTreeMap;
use std::time::Duration;

use api::kms::{ExpectedKey, HealthStatus, KeyRole};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::kms::rollup::{
    Decision, Expected, ExpectedNode, Form, Memory, Now, Removal, Report, Reports, Rules, Unreadable, decide,
    record,
};

pub(super) const WRITE: &str = "2";
pub(super) const READ: &str = "1";

pub(super) struct World {
    pub(super) rules: Rules,
    pub(super) expected: Expected,
    pub(super) reports: Reports,
    pub(super) memory: Memory,
    pub(super) stored: Vec<Condition>,
    /// Our own clock by the calendar, in seconds off the true one.
    pub(super) our_clock: i64,
    /// The nodes' clocks.
    pub(super) clocks: BTreeMap<String, i64>,
    /// How often the object would have been written.
    pub(super) writes: usize,
    seconds: i64,
}

impl World {
    /// Nodes of which each has a plugin that encrypts and one that only decrypts.
    pub(super) fn of(nodes: &[&str]) -> Self {
        let mut world = Self {
            rules: Rules::default(),
            expected: Expected { kms: true, nodes: Vec::new() },
            reports: Reports::default(),
            memory: Memory::default(),
            stored: Vec::new(),
            our_clock: 0,
            clocks: BTreeMap::new(),
            writes: 0,
            seconds: 0,
        };
        nodes.iter().for_each(|node| world.expect(node));
        world
    }

    pub(super) fn expect(&mut self, node: &str) {
        let key = |key_id: &str, role| ExpectedKey { key_id: key_id.into(), role };
        let keys = vec![key(WRITE, KeyRole::Write), key(READ, KeyRole::Read)];
        self.expected.nodes.push(ExpectedNode { name: node.into(), running: true, keys });
    }

    pub(super) fn node(&mut self, name: &str) -> &mut ExpectedNode {
        self.expected.nodes.iter_mut().find(|node| node.name == name).unwrap()
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.seconds += seconds;
    }

    pub(super) fn now(&self) -> Now {
        let steady = Duration::from_secs(u64::try_from(self.seconds).unwrap() + 1000);
        Now { steady, wall: self.calendar(self.our_clock) }
    }

    pub(super) fn calendar(&self, off: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.seconds + off).unwrap()
    }

    /// A node reports one of its plugins.
    pub(super) fn report(
        &mut self,
        form: Form,
        node: &str,
        key: &str,
        status: HealthStatus,
        detail: Option<&str>,
    ) {
        let checked = self.calendar(self.clocks.get(node).copied().unwrap_or(0));
        let report = Report {
            form,
            node: node.into(),
            key: key.into(),
            status,
            checked,
            remote_key_id: Some("kek".into()),
            detail: detail.map(Into::into),
            interval: None,
        };
        let place = |one: &Report| one.form == form && one.node == node && one.key == key;
        self.reports.readable.retain(|one| !place(one));
        self.reports.readable.push(report);
    }

    pub(super) fn say(&mut self, node: &str, key: &str, status: HealthStatus) {
        let detail = (status != HealthStatus::Healthy).then_some("Timeout: no answer within 5s");
        self.report(Form::Typed, node, key, status, detail);
    }

    pub(super) fn well(&mut self, node: &str) {
        self.say(node, WRITE, HealthStatus::Healthy);
        self.say(node, READ, HealthStatus::Healthy);
    }

    pub(super) fn uses(&mut self, node: &str, id: &str) {
        self.well(node);
        let ours = self.reports.readable.iter_mut().filter(|one| one.node == node);
        ours.for_each(|one| one.remote_key_id = (!id.is_empty()).then(|| id.into()));
    }

    pub(super) fn garble(&mut self, node: &str) {
        self.reports.unreadable.retain(|one| one.node != node);
        let (text, why) = ("{".into(), "EOF while parsing".into());
        self.reports.unreadable.push(Unreadable { form: Form::Condition, node: node.into(), text, why });
    }

    /// Looks, and stores what follows.
    pub(super) fn look(&mut self) -> Decision {
        let now = self.now();
        let memory = std::mem::take(&mut self.memory);
        let made = decide(&self.rules, &self.reports, &self.expected, &self.stored, memory, now);
        let (conditions, _) = record(made.verdict.as_ref(), &self.stored, 1, &Time(now.wall));
        if conditions != self.stored {
            self.writes += 1;
            self.stored = conditions;
        }
        self.memory = made.memory.clone();
        made
    }

    /// Another process takes over: what was remembered is lost.
    pub(super) fn restart(&mut self) {
        self.memory = Memory::default();
    }

    /// Every node reports each half minute that all is well, and each report is looked at.
    pub(super) fn well_for(&mut self, seconds: i64) {
        let nodes: Vec<String> = self.expected.nodes.iter().map(|node| node.name.clone()).collect();
        for _ in 0..seconds / 30 {
            nodes.iter().for_each(|node| self.well(node));
            self.look();
            self.pass(30);
        }
    }

    /// Status and reason of a condition that is stored.
    pub(super) fn stands(&self, type_: &str) -> (&str, &str) {
        let found = self.stored.iter().find(|one| one.type_ == type_);
        found.map_or(("", ""), |one| (one.status.as_str(), one.reason.as_str()))
    }

    pub(super) fn degraded(&self) -> (&str, &str) {
        self.stands("KMSPluginsDegraded")
    }

    pub(super) fn message(&self) -> &str {
        self.stored.iter().find(|one| one.type_ == "KMSPluginsDegraded").map_or("", |one| &one.message)
    }

    /// Carries out what was decided.
    pub(super) fn remove(&mut self, removals: &[Removal]) {
        for removal in removals {
            match removal {
                Removal::Typed { node, key, checked } => self.reports.readable.retain(|one| {
                    !(one.form == Form::Typed
                        && one.node == *node
                        && one.key == *key
                        && one.checked == *checked)
                }),
                Removal::Condition { node } => {
                    self.reports.readable.retain(|one| one.form != Form::Condition || one.node != *node);
                    self.reports.unreadable.retain(|one| one.form != Form::Condition || one.node != *node);
                }
            }
        }
    }
}
