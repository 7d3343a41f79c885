//! Plans: what the operator is doing, step by step, written down before it is done.

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
    /// Identifies the plan; the ids of its tasks are derived from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub id: String,

    /// What the plan is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<PlanKind>,

    /// The generation of the spec that the plan carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,

    /// When the plan was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,

    /// Where the plan is in its life.
    pub phase: PlanPhase,

    /// The tasks, in the order in which they are done.
    #[schemars(length(max = 256))]
    pub tasks: Vec<PlannedTask>,

    /// The phase of the node once the plan is complete. Plans of fleets have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_phase: Option<SeiNodePhase>,

    /// The phase of the node if the plan fails. Absent: the one it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_phase: Option<SeiNodePhase>,

    /// The task that failed, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_task_index: Option<i32>,

    /// How the task failed.
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

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum PlanKind {
    /// Set up a new node.
    Init,
    /// Set up a new node with a pod of its own that first brings it to a height.
    Bootstrap,
    /// Set up a validator of a new chain.
    Genesis,
    /// Bring a running node to its spec.
    NodeUpdate,
    /// Tell a sidecar that has restarted that its node may start.
    MarkReady,
    /// Make a new chain of a fleet's nodes.
    GenesisCeremony,
    /// Bring the nodes of a fleet to its template.
    Rollout,
}

/// Where a plan is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum PlanPhase {
    /// Being carried out.
    Active,
    /// Every task is complete.
    Complete,
    /// A task failed for good.
    Failed,
}

/// One task of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTask {
    /// What is done, for example `apply-statefulset`.
    #[serde(rename = "type")]
    #[schemars(length(max = 64))]
    pub task_type: String,

    /// Identifies the task, also at the sidecar: the same for every attempt, so that nothing is done twice.
    #[schemars(length(max = 64))]
    pub id: String,

    /// How far the task is.
    pub status: TaskStatus,

    /// What the task was given when the plan was made. Later edits of the spec do not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any")]
    pub params: Option<Value>,

    /// When the task was given to whoever does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_at: Option<Time>,

    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,

    /// How often the task may be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i32>,

    /// How often the task was tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i32>,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum TaskStatus {
    /// Not begun, or to be tried again.
    Pending,
    /// Begun. From here on its result is only read; beginning it again could do it twice.
    Running,
    /// Done.
    Complete,
    /// Failed for good.
    Failed,
}

/// How a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedTask {
    /// What was to be done.
    #[serde(rename = "type")]
    pub task_type: String,

    /// The task's id.
    pub id: String,

    /// Why it failed.
    pub error: String,

    /// How often it was tried again.
    pub retry_count: i32,

    /// How often it might have been tried again.
    pub max_retries: i32,
}

/// A plan that failed. It stays visible while its successor runs, which would otherwise hide why it was needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedPlan {
    /// The plan's id.
    pub id: String,

    /// What the plan was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<PlanKind>,

    /// The generation of the spec that the plan carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,

    /// The step that failed, as in `planStep`.
    pub step: String,

    /// When it failed.
    pub failed_at: Time,

    /// How it failed.
    pub task: FailedTask,

    /// How often in a row plans for the same purpose and the same generation have failed.
    #[serde(default = "once")]
    pub attempts: i32,
}

fn once() -> i32 {
    1
}

/// Something that must happen before the plan goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingFor {
    /// What is waited for: the kind of an object, or `SidecarTask`.
    pub what: String,

    /// The name of it.
    pub name: String,

    /// Both in one word, as `kubectl get` shows it.
    pub target: String,

    /// Since when.
    pub since: Time,

    /// Until when; then the task has failed.
    pub deadline: Time,

    /// What is known of it: for example why a container does not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl WaitingFor {
    /// A wait; `target` follows from what is waited for.
    #[must_use]
    pub fn new(what: impl Into<String>, name: impl Into<String>, since: Time, deadline: Time) -> Self {
        let (what, name) = (what.into(), name.into());
        let target = format!("{what}/{name}");
        Self { what, name, target, since, deadline, message: None }
    }
}
