//! Inputs of the rollup.

use std::collections::BTreeSet;
use std::time::Duration;

use api::kms::{ExpectedKey, PluginStatus};
use api::kms::{KeyRole, key_id};
use k8s_openapi::jiff::Timestamp;

use crate::kms::reporter_args::ReporterArgs;

/// Readings of the monotonic clock and the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Monotonic time since a fixed moment. All deadlines use it.
    pub monotonic: Duration,
    /// Wall-clock time for messages. It may jump.
    pub wall: Timestamp,
}

/// Form in which a report is stored, older forms first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportFormat {
    /// One condition per node.
    Condition,
    /// List of typed entries.
    Typed,
    /// List of typed entries in an object of the node, with this name.
    Object(String),
}

/// Report of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginReport {
    /// Format.
    pub format: ReportFormat,
    /// Node.
    pub node: String,
    /// Key number, followed by the instance of the reporter if it has one.
    pub key: String,
    /// Plugin status.
    pub status: PluginStatus,
    /// Probe time by the clock of the node.
    pub checked: Timestamp,
    /// ID of the KMS key.
    pub remote_key_id: Option<String>,
    /// Error detail.
    pub detail: Option<String>,
    /// Maximum time until the next report, if the report contains it.
    pub interval: Option<Duration>,
    /// Role of the key, if the report contains it.
    pub role: Option<KeyRole>,
}

impl PluginReport {
    /// Returns the instance of the reporter.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        key_id::split_instance(&self.key).1
    }
}

/// Malformed report of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedReport {
    /// Format.
    pub format: ReportFormat,
    /// Node.
    pub node: String,
    /// Instance of the reporter.
    pub instance: Option<String>,
    /// Raw content.
    pub text: String,
    /// Parse error.
    pub why: String,
}

/// Reports about one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reports {
    /// Valid reports.
    pub valid: Vec<PluginReport>,
    /// Malformed reports.
    pub malformed: Vec<MalformedReport>,
}

/// A live pod of an API server, ready or not. A failing plugin makes its API server unready, so readiness says nothing about
/// whether a report is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// Node that the pod runs on.
    pub node: String,
    /// Arguments of its reporter; `None` if the pod has no reporter for this object.
    pub reporter: Option<ReporterArgs>,
    /// Whether the reporter's container has started.
    pub has_started: bool,
}

/// An input that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnavailableInput {
    /// What cannot be read.
    pub what: String,
    /// Why. It must not change while the cause is the same.
    pub why: String,
}

/// What is known about the API servers that should report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Live pods of API servers.
    pub servers: Vec<ApiServer>,
    /// Nodes that get a pod of an API server, whether it exists already or not.
    pub planned_nodes: BTreeSet<String>,
    /// The only nodes that are expected to report, if not empty.
    pub only_nodes: BTreeSet<String>,
    /// The only keys whose plugins are expected to report, if not empty.
    pub only_keys: Vec<ExpectedKey>,
    /// Inputs that cannot be read. The other fields hold what was read last.
    pub unavailable: Vec<UnavailableInput>,
}

/// A plugin that is expected to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedPlugin {
    /// Key number, followed by the instance of the reporter if it has one.
    pub key: String,
    /// Role of the key.
    pub role: KeyRole,
    /// Whether the role was guessed from the key numbers.
    pub is_role_assumed: bool,
}

/// Reporter that is expected on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedNode {
    /// Name.
    pub name: String,
    /// Whether its reporter has started. Reports are not missed before that.
    pub running: bool,
    /// Deployed plugins. Nodes may differ during a rollout.
    pub plugins: Vec<ExpectedPlugin>,
    /// Report interval according to the pod.
    pub interval: Option<Duration>,
}

/// Expected reporters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedReporters {
    /// Whether any plugin is deployed.
    pub kms: bool,
    /// Nodes. A node with several instances of the reporter occurs several times.
    pub nodes: Vec<ExpectedNode>,
    /// Inputs that cannot be read, so that nodes may be missing.
    pub unavailable: Vec<UnavailableInput>,
}

/// Evaluation rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupRules {
    /// Report interval, unless the report or the pod of its reporter contains it.
    pub interval: Duration,
    /// Tolerated clock skew of nodes, where freshness depends on clocks.
    pub margin: Duration,
    /// Whether an unhealthy read-only plugin makes the cluster degraded. If false, it is only listed in the message.
    pub read_degrades: bool,
    /// Time that a pod may take to start its reporter.
    pub rollout_timeout: Duration,
}

impl Default for RollupRules {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            margin: Duration::from_secs(60),
            read_degrades: true,
            rollout_timeout: Duration::from_secs(600),
        }
    }
}
