//! Tasks: requests and results.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A request to execute a task. Requests with the same ID are the same task: it is executed again only if it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRequest {
    /// ID of the task, a UUID. If unset, the sidecar generates one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Type of the task: a [`TaskType`], as a string so that the error for an unknown type can name it.
    #[serde(rename = "type", default)]
    pub task_type: String,

    /// Parameters of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
}

/// The response to a submitted task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedTask {
    /// ID of the task.
    pub id: String,
}

/// The response to a dry-run of a task that can be executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRunResult {
    /// Always true: a task that would fail is an error.
    pub valid: bool,

    /// What was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The state and result of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    /// ID of the task.
    pub id: String,

    /// Type of the task.
    #[serde(rename = "type")]
    pub task_type: String,

    /// State of the task.
    pub status: TaskState,

    /// Number of the attempt, starting at 1.
    #[serde(default = "first_run")]
    pub run: u32,

    /// Parameters of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,

    /// Result of the task. A failed task may have one, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,

    /// Error of a failed task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,

    /// Time of the last submission.
    pub submitted_at: MicroTime,

    /// Time of completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<MicroTime>,
}

/// Other sidecar implementations may omit the field.
fn first_run() -> u32 {
    1
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// The task is running.
    Running,
    /// The task succeeded.
    Completed,
    /// The task failed.
    Failed,
}

/// The body of every error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Error message.
    pub error: String,
}

/// The status of the sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidecarStatus {
    /// Whether seid may start.
    pub status: SidecarState,
}

/// Whether seid may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SidecarState {
    /// seid must not start yet.
    Initializing,
    /// seid may start.
    Ready,
}

/// The node's identity in the peer-to-peer network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeId {
    /// Node ID: forty hexadecimal digits.
    pub node_id: String,
}

/// Declares the task types with their names on the wire.
macro_rules! task_types {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// The type of a task.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum TaskType {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)+
        }

        impl TaskType {
            /// All task types.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the task type with this name.
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
    /// Lets seid start.
    MarkReady = "mark-ready",
    /// Holds seid back at its next start.
    MarkNotReady = "mark-not-ready",
    /// Restarts seid.
    RestartSeid = "restart-seid",
    /// Stops seid.
    StopSeid = "stop-seid",
    /// Deletes the chain data.
    ResetData = "reset-data",
    /// Waits for a height, or until the node has caught up.
    AwaitCondition = "await-condition",
    /// Changes fields of configuration files.
    ConfigPatch = "config-patch",
    /// Writes the configuration files.
    ConfigApply = "config-apply",
    /// Validates the configuration files.
    ConfigValidate = "config-validate",
    /// Changes settings that seid reloads at runtime.
    ConfigReload = "config-reload",
    /// Downloads the genesis file.
    ConfigureGenesis = "configure-genesis",
    /// Configures the validators of a new chain as peers of each other.
    SetGenesisPeers = "set-genesis-peers",
    /// Discovers peers.
    DiscoverPeers = "discover-peers",
    /// Configures state sync.
    ConfigureStateSync = "configure-state-sync",
    /// Restores a snapshot.
    SnapshotRestore = "snapshot-restore",
    /// Uploads snapshots continuously.
    SnapshotUpload = "snapshot-upload",
    /// Uploads one snapshot.
    SnapshotUploadOnce = "snapshot-upload-once",
    /// Generates the keys of a validator of a new chain.
    GenerateIdentity = "generate-identity",
    /// Generates the genesis transaction of a validator of a new chain.
    GenerateGentx = "generate-gentx",
    /// Uploads the artifacts that the other validators of a new chain need.
    UploadGenesisArtifacts = "upload-genesis-artifacts",
    /// Assembles and uploads the genesis file of a new chain.
    AssembleAndUploadGenesis = "assemble-and-upload-genesis",
    /// Votes on a proposal.
    GovVote = "gov-vote",
    /// Submits a software upgrade proposal.
    GovSoftwareUpgrade = "gov-software-upgrade",
    /// Submits a parameter change proposal.
    GovParamChange = "gov-param-change",
    /// Exports or compares block results.
    ResultExport = "result-export",
    /// Compares two stores of EVM state.
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
    fn task_result_round_trips() {
        for document in [
            json!({"id": "a", "type": "mark-ready", "status": "running", "run": 1, "submittedAt": "2026-05-18T10:00:00.123456Z"}),
            json!({
                "id": "b", "type": "assemble-and-upload-genesis", "status": "failed", "run": 3,
                "params": {"namespace": "sei", "big": 9_007_199_254_740_993_i64}, "result": {"genesisHash": "ab"},
                "error": "S3: <&>", "submittedAt": "2026-05-18T10:00:00.000000Z", "completedAt": "2026-05-18T10:00:01.000000Z",
            }),
        ] {
            let parsed: TaskResult = serde_json::from_value(document.clone()).unwrap();
            assert_eq!(serde_json::to_value(&parsed).unwrap(), document);
        }
    }

    #[test]
    fn timestamps_with_and_without_fraction_are_parsed() {
        for time in ["2026-05-18T10:00:00Z", "2026-05-18T10:00:00.123456789Z"] {
            let document = json!({"id": "a", "type": "x", "status": "completed", "submittedAt": time, "completedAt": time});
            let read: TaskResult = serde_json::from_value(document).unwrap();
            assert_eq!(read.run, 1);
            assert!(read.completed_at.is_some());
        }
    }

    #[test]
    fn request_without_type_is_parsed() {
        let read: TaskRequest = serde_json::from_str(r#"{"params": {}, "unknown": 1}"#).unwrap();
        assert_eq!((read.task_type.as_str(), TaskType::from_name(&read.task_type)), ("", None));
    }

    #[test]
    fn task_type_names_are_consistent() {
        for task in TaskType::ALL {
            assert_eq!(serde_json::to_value(task).unwrap(), task.as_str());
            assert_eq!(TaskType::from_name(task.as_str()), Some(*task));
            assert_eq!(task.to_string(), task.as_str());
        }
    }
}
