//! What a decision is made from.

use std::time::Duration;

use api::kms::{ExpectedKey, HealthStatus};
use k8s_openapi::jiff::Timestamp;

/// The time by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since some moment that stays the same. It never jumps: what is late is late by this clock.
    pub steady: Duration,
    /// By the calendar, which people read and which jumps.
    pub wall: Timestamp,
}

/// How a report is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Form A: one condition for each node.
    Condition,
    /// Form B: a list of typed entries.
    Typed,
}

/// One plugin's report as it stands on an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it is published.
    pub form: Form,
    /// The node.
    pub node: String,
    /// Number of the key.
    pub key: String,
    /// How the plugin is.
    pub status: HealthStatus,
    /// When it was looked at, by the node's clock.
    pub checked: Timestamp,
    /// Id of the key in the KMS.
    pub remote_key_id: Option<String>,
    /// What the plugin, or the way to it, said.
    pub detail: Option<String>,
    /// Time between two looks, where the report says it.
    pub interval: Option<Duration>,
}

/// Something that stands in place of a node's reports and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// How it is published.
    pub form: Form,
    /// The node.
    pub node: String,
    /// What stands there.
    pub text: String,
    /// Why it cannot be read.
    pub why: String,
}

/// The reports of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reports {
    /// Those that can be read.
    pub readable: Vec<Report>,
    /// Those that cannot.
    pub unreadable: Vec<Unreadable>,
}

/// A node that is expected to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedNode {
    /// Its name.
    pub name: String,
    /// Whether its API server runs: before that no report is missed.
    pub running: bool,
    /// The plugins that it has. Nodes may differ while API servers are rolled out.
    pub keys: Vec<ExpectedKey>,
}

/// Who is expected to report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Whether any plugin is deployed.
    pub kms: bool,
    /// The nodes.
    pub nodes: Vec<ExpectedNode>,
}

/// How strictly reports are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Time between two reports of one node, where they do not say it themselves.
    pub interval: Duration,
    /// How far a node's clock may be off, where only clocks can tell whether a report is fresh.
    pub margin: Duration,
    /// Whether a sick plugin that only decrypts makes the cluster degraded; else it is only told.
    pub read_degrades: bool,
}

/// A report that has not changed for so many intervals is stale: one or two that were lost do no harm.
const STALE_AFTER: u32 = 4;

impl Rules {
    /// The time after which a report that does not change is stale.
    pub(super) fn stale_after(&self, said: Option<Duration>) -> Duration {
        said.unwrap_or(self.interval).saturating_mul(STALE_AFTER)
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), margin: Duration::from_secs(60), read_degrades: true }
    }
}
