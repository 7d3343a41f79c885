//! Inputs of the rollup.

use std::time::Duration;

use api::kms::{ExpectedKey, PluginStatus};
use k8s_openapi::jiff::Timestamp;

/// Readings of the monotonic clock and the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Monotonic time since a fixed moment. All deadlines use it.
    pub monotonic: Duration,
    /// Wall-clock time for messages. It may jump.
    pub wall: Timestamp,
}

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportFormat {
    /// One condition per node.
    Condition,
    /// List of typed entries.
    Typed,
}

/// Report of one plugin in an object.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginReport {
    /// Format.
    pub format: ReportFormat,
    /// Node.
    pub node: String,
    /// Key number.
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
}

/// Malformed report of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedReport {
    /// Format.
    pub format: ReportFormat,
    /// Node.
    pub node: String,
    /// Raw content.
    pub text: String,
    /// Parse error.
    pub why: String,
}

/// Reports in an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reports {
    /// Valid reports.
    pub valid: Vec<PluginReport>,
    /// Malformed reports.
    pub malformed: Vec<MalformedReport>,
}

/// Node that is expected to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedNode {
    /// Name.
    pub name: String,
    /// Whether its API server is running. Reports are not missed before that.
    pub running: bool,
    /// Deployed plugins. Nodes may differ during a rollout.
    pub keys: Vec<ExpectedKey>,
}

/// Expected reporters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedReporters {
    /// Whether any plugin is deployed.
    pub kms: bool,
    /// Nodes.
    pub nodes: Vec<ExpectedNode>,
}

/// Evaluation rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupRules {
    /// Report interval, unless a report contains its own.
    pub interval: Duration,
    /// Tolerated clock skew of nodes, where freshness depends on clocks.
    pub margin: Duration,
    /// Whether an unhealthy read-only plugin makes the cluster degraded. If false, it is only listed in the message.
    pub read_degrades: bool,
}

/// Number of intervals without a change after which a report is stale. Tolerates a few lost writes.
const STALE_AFTER: u32 = 4;

impl RollupRules {
    /// Returns the time after which an unchanged report is stale.
    pub(super) fn stale_after(&self, reported: Option<Duration>) -> Duration {
        reported.unwrap_or(self.interval).saturating_mul(STALE_AFTER)
    }
}

impl Default for RollupRules {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), margin: Duration::from_secs(60), read_degrades: true }
    }
}
