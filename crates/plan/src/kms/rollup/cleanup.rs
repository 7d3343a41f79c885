//! Entries that nobody needs any more. One goes only when it is both unexpected and long silent: a reporter that lives keeps
//! its entry, so that the two never fight.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::freshness::INSTANT;
use super::input::{Expected, Form, Now, Report, Reports, Rules};
use super::memory::{Memory, Seen};
use super::subject::newest;

/// An entry that is to go. It names what is meant so closely that another that has come in its place stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Removal {
    /// The condition of a node.
    Condition {
        /// The node.
        node: String,
    },
    /// A typed entry.
    Typed {
        /// The node.
        node: String,
        /// Number of the key.
        key: String,
        /// When the plugin was looked at.
        checked: Timestamp,
    },
}

/// Entries that are to go. Only our own clock tells how long an entry has been silent: a reporter whose clock is wrong lives.
pub(super) fn removals(
    rules: &Rules,
    reports: &Reports,
    expected: &Expected,
    memory: &Memory,
    now: Now,
    due: &mut Vec<Duration>,
) -> Vec<Removal> {
    let mut over = |interval, seen: Option<&Seen>| {
        let limit = rules.stale_after(interval);
        // Where no plugin is left there is nothing to mistake it for.
        let limit = if expected.kms { limit.saturating_mul(2) } else { limit };
        let end = seen.map_or(Duration::MAX, |seen| seen.heard.saturating_add(limit));
        let over = now.steady > end;
        if !over {
            due.push(end.saturating_add(INSTANT));
        }
        over
    };
    let mut removals = Vec::new();
    for report in reports.readable.iter().filter(|report| report.form == Form::Typed) {
        if !is_needed(report, reports, expected) && over(report.interval, memory.seen(report)) {
            removals.push(Removal::Typed {
                node: report.node.clone(),
                key: report.key.clone(),
                checked: report.checked,
            });
        }
    }
    for node in conditions(reports) {
        let mut of_node =
            reports.readable.iter().filter(|one| one.form == Form::Condition && one.node == node).peekable();
        let gone = if of_node.peek().is_some() {
            // They stand in one condition, and go together or not at all.
            of_node.all(|one| !is_needed(one, reports, expected) && over(one.interval, memory.seen(one)))
        } else {
            let unreadable =
                reports.unreadable.iter().find(|one| one.form == Form::Condition && one.node == node);
            let is_expected = expected.kms && expected.nodes.iter().any(|one| one.name == node);
            !is_expected && over(None, unreadable.and_then(|one| memory.seen_unreadable(one)))
        };
        if gone {
            removals.push(Removal::Condition { node: node.to_owned() });
        }
    }
    removals.sort();
    removals
}

/// Whether a plugin is judged by an entry: it is expected, and no newer entry of another form tells of it.
fn is_needed(report: &Report, reports: &Reports, expected: &Expected) -> bool {
    let is_expected = expected.kms
        && expected
            .nodes
            .iter()
            .any(|node| node.name == report.node && node.keys.iter().any(|key| key.key_id == report.key));
    is_expected && newest(reports, &report.node, &report.key).is_some_and(|newest| newest.form == report.form)
}

/// Nodes that have a condition.
fn conditions(reports: &Reports) -> Vec<&str> {
    let readable =
        reports.readable.iter().filter(|one| one.form == Form::Condition).map(|one| one.node.as_str());
    let unreadable =
        reports.unreadable.iter().filter(|one| one.form == Form::Condition).map(|one| one.node.as_str());
    let mut nodes: Vec<&str> = readable.chain(unreadable).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
