//! Plans: the ordered tasks that bring a node or a fleet to its desired state. A plan is stored before it is executed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{PeerSource, SeiNodePhase};
use crate::schema;

/// An ordered list of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskPlan {
    /// ID of the plan. The IDs of its tasks are derived from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub id: String,

    /// Purpose of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<PlanKind>,

    /// Generation of the spec that the plan applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,

    /// Time at which the plan was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,

    /// Phase of the plan: Active, Complete or Failed.
    pub phase: PlanPhase,

    /// Tasks in the order of their execution.
    #[schemars(length(max = 256))]
    pub tasks: Vec<PlannedTask>,

    /// Phase of the node once the plan is complete. Unset in plans of fleets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_phase: Option<SeiNodePhase>,

    /// Phase of the node if the plan fails. If unset, the phase does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_phase: Option<SeiNodePhase>,

    /// Index of the task that failed, starting at 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_task_index: Option<i32>,

    /// Details of the task that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_task_detail: Option<FailedTask>,

    /// The changes that the plan makes. Absent in plans of fleets and of previous versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<PlanChanges>,

    /// The sources from `spec.peers` whose peers the plan gives to seid. Absent in plans that write no configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub peers: Option<Vec<PeerSource>>,
}

/// The changes that a plan makes to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanChanges {
    /// The pod template changes. The new pod is observed before the plan continues.
    #[serde(default)]
    pub pod: bool,

    /// The TLS configuration of the sidecar API changes.
    #[serde(default)]
    pub tls: bool,

    /// The Secrets of the validator change. They are validated before the pod is replaced.
    #[serde(default)]
    pub keys: bool,

    /// How the configuration of seid is written.
    #[serde(default)]
    pub config: ConfigChange,

    /// Uploads of snapshots are started.
    #[serde(default)]
    pub snapshot_upload: bool,
}

impl PlanChanges {
    /// Returns whether there is nothing to change.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns the changes of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            pod: self.pod || other.pod,
            tls: self.tls || other.tls,
            keys: self.keys || other.keys,
            config: self.config.max(other.config),
            snapshot_upload: self.snapshot_upload || other.snapshot_upload,
        }
    }
}

/// How a plan writes the configuration of seid, ordered by how much is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum ConfigChange {
    /// The configuration is not written.
    #[default]
    Unchanged,
    /// Settings are written on top of the existing configuration.
    Incremental,
    /// The configuration is written from the defaults. Only this can remove a setting.
    Full,
}

/// The purpose of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum PlanKind {
    /// Sets up a new node.
    Init,
    /// Sets up a new node with a bootstrap pod that first syncs it to a height.
    Bootstrap,
    /// Sets up a validator of a new chain.
    Genesis,
    /// Updates a running node to its spec.
    NodeUpdate,
    /// Returns a running node to its previous configuration after a failed update.
    Rollback,
    /// Releases seid after the sidecar restarted.
    MarkReady,
    /// Creates a new chain from the nodes of a fleet.
    GenesisCeremony,
    /// Updates the nodes of a fleet to its template.
    Rollout,
}

/// The phase of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum PlanPhase {
    /// The plan is being executed.
    Active,
    /// All tasks are complete.
    Complete,
    /// A task failed and has no retries left.
    Failed,
}

/// A task of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTask {
    /// Type of the task, for example `apply-statefulset`.
    #[serde(rename = "type")]
    #[schemars(length(max = 64))]
    pub task_type: String,

    /// ID of the task, also used by the sidecar. All attempts share it, so that a task is not executed twice.
    #[schemars(length(max = 64))]
    pub id: String,

    /// Status of the task: Pending, Running, Complete or Failed.
    pub status: TaskStatus,

    /// Parameters of the task, fixed when the plan was created. Later changes of the spec do not affect them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any")]
    pub params: Option<Value>,

    /// Time at which the task was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_at: Option<Time>,

    /// Error of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,

    /// Maximum number of retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i32>,

    /// Number of retries so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i32>,
}

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum TaskStatus {
    /// Not started, or waiting for a retry.
    Pending,
    /// Started. From here on only its result is read: submitting it again could execute it twice.
    Running,
    /// Succeeded.
    Complete,
    /// Failed without retries left.
    Failed,
}

/// Details of a failed task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedTask {
    /// Type of the task.
    #[serde(rename = "type")]
    pub task_type: String,

    /// ID of the task.
    pub id: String,

    /// Error of the last attempt.
    pub error: String,

    /// Number of retries.
    pub retry_count: i32,

    /// Maximum number of retries.
    pub max_retries: i32,
}

/// A failed plan. It stays visible while the next plan runs, which would otherwise hide the failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedPlan {
    /// ID of the plan.
    pub id: String,

    /// Purpose of the failed plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<PlanKind>,

    /// Generation of the spec that the plan applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,

    /// Hash of the spec that the plan applied, without `paused`, so that pausing a node is not a new attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<String>,

    /// Step that failed, in the format of `planStep`.
    pub step: String,

    /// Time of the failure.
    pub failed_at: Time,

    /// Details of the task that failed.
    pub task: FailedTask,

    /// Number of consecutive failed plans with the same purpose and generation.
    #[serde(default = "once")]
    pub attempts: i32,

    /// Time of the next attempt. If absent, the plan is not tried again until the spec is edited or the annotation
    /// `outrigger.dev/retry` is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<Time>,

    /// Whether the node returns to the spec in `status.appliedSpec`, until the spec is edited or the annotation
    /// `outrigger.dev/retry` is changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolled_back: bool,
}

fn once() -> i32 {
    1
}

/// What a plan is waiting for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingFor {
    /// Kind of the awaited object, or `SidecarTask`.
    pub what: String,

    /// Name of the awaited object.
    pub name: String,

    /// Kind and name as `kind/name`, the form that `kubectl get` prints.
    pub target: String,

    /// Time at which the wait started.
    pub since: Time,

    /// Time at which the wait times out and the task fails.
    pub deadline: Time,

    /// Details, for example why a container does not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl WaitingFor {
    /// Creates a wait. `target` is derived from `what` and `name`.
    #[must_use]
    pub fn new(what: impl Into<String>, name: impl Into<String>, since: Time, deadline: Time) -> Self {
        let (what, name) = (what.into(), name.into());
        let target = format!("{what}/{name}");
        Self { what, name, target, since, deadline, message: None }
    }
}
