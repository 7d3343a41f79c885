//! Tasks: how they are given, and what becomes of them.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A task to be done. The same id is the same task: what runs or is done is not begun again, what failed is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRequest {
    /// A UUID. Absent: the sidecar makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// What is to be done: a [`TaskType`], as text, so that an unknown one can be named in the refusal.
    #[serde(rename = "type", default)]
    pub task_type: String,

    /// With what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
}

/// The answer to a task that was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedTask {
    /// The task's id.
    pub id: String,
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    /// The task's id.
    pub id: String,

    /// What was to be done.
    #[serde(rename = "type")]
    pub task_type: String,

    /// How far it is.
    pub status: TaskState,

    /// Which attempt this is, from 1.
    #[serde(default = "first_run")]
    pub run: u32,

    /// With what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,

    /// What it returned; a task that failed may have returned something, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,

    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,

    /// When it was last given.
    pub submitted_at: MicroTime,

    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<MicroTime>,
}

/// Sidecars of others may leave it out.
fn first_run() -> u32 {
    1
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// Being done.
    Running,
    /// Done.
    Completed,
    /// Failed.
    Failed,
}

/// Every refusal has this body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Why.
    pub error: String,
}

/// Whether the node may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidecarStatus {
    /// Whether it may.
    pub status: SidecarState,
}

/// Whether the node may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SidecarState {
    /// Not yet.
    Initializing,
    /// It may.
    Ready,
}

/// Who the node is among its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeId {
    /// Forty hexadecimal digits.
    pub node_id: String,
}

/// Declares the types of tasks with their names on the wire.
macro_rules! task_types {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// What a sidecar can do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum TaskType {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)+
        }

        impl TaskType {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The type with a name, if there is one.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

task_types! {
    /// Let the node start.
    MarkReady = "mark-ready",
    /// Hold the node back when it next starts.
    MarkNotReady = "mark-not-ready",
    /// Stop seid; it starts again by itself.
    RestartSeid = "restart-seid",
    /// Stop seid.
    StopSeid = "stop-seid",
    /// Delete the chain's data.
    ResetData = "reset-data",
    /// Wait for a height, or until the node has caught up.
    AwaitCondition = "await-condition",
    /// Change parts of configuration files.
    ConfigPatch = "config-patch",
    /// Write the configuration files.
    ConfigApply = "config-apply",
    /// Check the configuration files.
    ConfigValidate = "config-validate",
    /// Change settings that seid reads while it runs.
    ConfigReload = "config-reload",
    /// Fetch the genesis file.
    ConfigureGenesis = "configure-genesis",
    /// Make the validators of a new chain each other's peers.
    SetGenesisPeers = "set-genesis-peers",
    /// Find peers.
    DiscoverPeers = "discover-peers",
    /// Choose what state sync trusts.
    ConfigureStateSync = "configure-state-sync",
    /// Fetch a snapshot.
    SnapshotRestore = "snapshot-restore",
    /// Upload snapshots for ever.
    SnapshotUpload = "snapshot-upload",
    /// Upload a snapshot.
    SnapshotUploadOnce = "snapshot-upload-once",
    /// Make the keys of a validator of a new chain.
    GenerateIdentity = "generate-identity",
    /// Make the first transaction of a validator of a new chain.
    GenerateGentx = "generate-gentx",
    /// Upload what the others of a new chain need.
    UploadGenesisArtifacts = "upload-genesis-artifacts",
    /// Make the genesis file of a new chain.
    AssembleAndUploadGenesis = "assemble-and-upload-genesis",
    /// Vote on a proposal.
    GovVote = "gov-vote",
    /// Propose an upgrade.
    GovSoftwareUpgrade = "gov-software-upgrade",
    /// Propose other parameters of the chain.
    GovParamChange = "gov-param-change",
    /// Export or compare the results of blocks.
    ResultExport = "result-export",
    /// Compare two stores of EVM state.
    EvmLogicalDigest = "evm-logical-digest",
}

impl fmt::Display for TaskType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_result_of_the_sidecar_is_read_and_written_unchanged() {
        for document in [
            json!({"id": "a", "type": "mark-ready", "status": "running", "run": 1, "submittedAt": "2026-05-18T10:00:00.123456Z"}),
            json!({
                "id": "b", "type": "assemble-and-upload-genesis", "status": "failed", "run": 3,
                "params": {"namespace": "sei", "big": 9_007_199_254_740_993_i64}, "result": {"genesisHash": "ab"},
                "error": "S3: <&>", "submittedAt": "2026-05-18T10:00:00.000000Z", "completedAt": "2026-05-18T10:00:01.000000Z",
            }),
        ] {
            let read: TaskResult = serde_json::from_value(document.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), document);
        }
    }

    #[test]
    fn times_are_read_to_the_nanosecond_and_without_a_fraction() {
        for time in ["2026-05-18T10:00:00Z", "2026-05-18T10:00:00.123456789Z"] {
            let document = json!({"id": "a", "type": "x", "status": "completed", "submittedAt": time, "completedAt": time});
            let read: TaskResult = serde_json::from_value(document).unwrap();
            assert_eq!(read.run, 1);
            assert!(read.completed_at.is_some());
        }
    }

    #[test]
    fn a_request_without_a_type_can_be_read_so_that_it_can_be_refused() {
        let read: TaskRequest = serde_json::from_str(r#"{"params": {}, "unknown": 1}"#).unwrap();
        assert_eq!((read.task_type.as_str(), TaskType::from_name(&read.task_type)), ("", None));
    }

    #[test]
    fn every_type_has_one_name_everywhere() {
        for task in TaskType::ALL {
            assert_eq!(serde_json::to_value(task).unwrap(), task.as_str());
            assert_eq!(TaskType::from_name(task.as_str()), Some(*task));
            assert_eq!(task.to_string(), task.as_str());
        }
    }
}
