//! What is remembered from look to look: when each report last changed, by our own clock, and how often it went from well to
//! sick and back.

use std::collections::BTreeMap;
use std::time::Duration;

use api::kms::HealthStatus;
use k8s_openapi::jiff::Timestamp;

use super::input::{Form, Now, Report, Reports, Unreadable};
use super::subject::State;

/// So many changes of class ...
const FLAPS: usize = 3;
/// ... within so long are flapping.
const FLAP_WINDOW: Duration = Duration::from_secs(600);

/// What is remembered of one object's reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    looked: bool,
    seen: BTreeMap<Id, Seen>,
    /// Since when a plugin that runs is not reported.
    pub(super) awaited: BTreeMap<(String, String), Duration>,
    /// How each plugin is, and since when.
    pub(super) states: BTreeMap<(String, String), (State, Timestamp)>,
    /// The key that all nodes agree on, and since when.
    pub(super) agreed: Option<Agreed>,
}

/// A key that all nodes agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) id: String,
    /// None: it was relied on before we began to look.
    pub(super) since: Option<Duration>,
    pub(super) wall: Timestamp,
}

/// What stands in one place of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    node: String,
    /// None for what cannot be read.
    key: Option<String>,
    form: Form,
}

/// An entry, as it was last seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    /// What changes with every report: its time, or, of what cannot be read, all of it.
    mark: String,
    /// When the mark was last seen to change, or first seen at all.
    pub(super) heard: Duration,
    /// Whether it was seen to change: who writes is alive, whatever his clock says.
    pub(super) progressed: bool,
    status: Option<HealthStatus>,
    changes: Vec<Duration>,
    /// Since when it has been flapping.
    pub(super) flapping: Option<Timestamp>,
}

impl Memory {
    /// Notes what stands there now, and forgets what does not.
    pub(super) fn look(&mut self, reports: &Reports, now: Now) {
        let mut before = std::mem::take(&mut self.seen);
        for report in &reports.readable {
            let id = Id::of(report);
            let seen = self.sight(before.remove(&id), report.checked.to_string(), now);
            self.seen.insert(id, classed(seen, report.status, now));
        }
        for unreadable in &reports.unreadable {
            let id = Id::of_unreadable(unreadable);
            let seen = self.sight(before.remove(&id), unreadable.text.clone(), now);
            self.seen.insert(id, seen);
        }
    }

    fn sight(&self, before: Option<Seen>, mark: String, now: Now) -> Seen {
        match before {
            Some(seen) if seen.mark == mark => seen,
            Some(seen) => Seen { mark, heard: now.steady, progressed: true, ..seen },
            // What was not there at an earlier look has been written since.
            None => Seen {
                mark,
                heard: now.steady,
                progressed: self.looked,
                status: None,
                changes: Vec::new(),
                flapping: None,
            },
        }
    }

    /// When each entry that flaps now will no longer do so, if it keeps quiet.
    pub(super) fn flaps_end(&self) -> Vec<Duration> {
        let flapping = self.seen.values().filter(|seen| seen.flapping.is_some());
        flapping.filter_map(|seen| Some(*seen.changes.iter().rev().nth(FLAPS - 1)? + FLAP_WINDOW)).collect()
    }

    /// A report, as it was last seen.
    pub(super) fn seen(&self, report: &Report) -> Option<&Seen> {
        self.seen.get(&Id::of(report))
    }

    /// What cannot be read, as it was last seen.
    pub(super) fn seen_unreadable(&self, unreadable: &Unreadable) -> Option<&Seen> {
        self.seen.get(&Id::of_unreadable(unreadable))
    }

    /// Whether there was a look before this one.
    pub(super) fn has_looked(&self) -> bool {
        self.looked
    }

    pub(super) fn looked(&mut self) {
        self.looked = true;
    }
}

/// Notes the class, and whether it changes too often.
fn classed(mut seen: Seen, status: HealthStatus, now: Now) -> Seen {
    if seen.status.is_some_and(|before| before != status) {
        seen.changes.push(now.steady);
    }
    seen.status = Some(status);
    seen.changes.retain(|at| now.steady.saturating_sub(*at) < FLAP_WINDOW);
    seen.flapping = (seen.changes.len() >= FLAPS).then(|| seen.flapping.unwrap_or(now.wall));
    seen
}

impl Id {
    fn of(report: &Report) -> Self {
        Self { node: report.node.clone(), key: Some(report.key.clone()), form: report.form }
    }

    fn of_unreadable(unreadable: &Unreadable) -> Self {
        Self { node: unreadable.node.clone(), key: None, form: unreadable.form }
    }
}
