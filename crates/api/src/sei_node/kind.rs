//! The kinds of nodes that hold no keys.
//!
//! Objects that may be empty are atomic: a server-side apply that removes the last field of any other leaves a null behind,
//! which the API server then refuses in words that nobody can understand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SnapshotGeneration, SnapshotSource, rules};
use crate::rule::validations;

/// A node that follows the chain and serves queries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct FullNodeSpec {
    /// What the node starts from. Absent: the chain's first block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotSource>,

    /// Snapshots that the node makes for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_generation: Option<SnapshotGeneration>,
}

/// A node that keeps the whole chain. It always starts from the first block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ArchiveSpec {
    /// Snapshots that the node makes for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_generation: Option<SnapshotGeneration>,
}

/// A node that replays blocks from a snapshot on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::REPLAYER)))]
pub struct ReplayerSpec {
    /// What the node starts from; it must come from S3.
    pub snapshot: SnapshotSource,

    /// What is done with the results of the replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_export: Option<ResultExport>,
}

/// Where the results of a replay go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::RESULT_EXPORT)))]
pub struct ResultExport {
    /// Compare each block's result with that of a node that is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow_result: Option<ShadowResult>,
}

/// A comparison with a trusted node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShadowResult {
    /// RPC address of the trusted node.
    #[schemars(length(min = 1, max = 2048))]
    pub canonical_rpc: String,
}
