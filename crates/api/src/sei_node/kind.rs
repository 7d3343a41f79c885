//! The kinds of nodes without keys.
//!
//! Objects that may be empty are atomic: with any other map type, a server-side apply that removes the last field leaves a null
//! behind, which the API server rejects with a misleading message.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SnapshotGeneration, SnapshotSource, rules};
use crate::rule::validations;

/// A full node: follows the chain and serves queries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct FullNodeSpec {
    /// Snapshot to start from. If unset, the node syncs from the first block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotSource>,

    /// Snapshots that the node generates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_generation: Option<SnapshotGeneration>,
}

/// An archive node: keeps the whole chain. It always syncs from the first block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ArchiveSpec {
    /// Snapshots that the node generates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_generation: Option<SnapshotGeneration>,
}

/// A replayer: replays blocks, starting from a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::REPLAYER)))]
pub struct ReplayerSpec {
    /// Snapshot to start from. It must be an S3 snapshot.
    pub snapshot: SnapshotSource,

    /// Export of the replay results. If unset, they are not exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_export: Option<ResultExport>,
}

/// Export of replay results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::RESULT_EXPORT)))]
pub struct ResultExport {
    /// Compares the result of each block with that of a trusted node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow_result: Option<ShadowResult>,
}

/// Comparison with a trusted node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShadowResult {
    /// RPC URL of the trusted node.
    #[schemars(length(min = 1, max = 2048))]
    pub canonical_rpc: String,
}
