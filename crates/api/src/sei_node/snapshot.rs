//! Snapshots that a node starts from, and snapshots that it generates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::rule::validations;

/// A snapshot to start from. Exactly one of `s3` and `stateSync` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SNAPSHOT_SOURCE)))]
pub struct SnapshotSource {
    /// Restores a snapshot from the operator's snapshot bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Snapshot>,

    /// Restores a snapshot from peers with state sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_sync: Option<StateSync>,

    /// Trust period of the light client, for example `168h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub trust_period: Option<String>,

    /// Number of blocks before the snapshot to download as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub backfill_blocks: Option<i64>,

    /// seid image of a bootstrap pod, which first syncs the node from the snapshot to `s3.targetHeight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub bootstrap_image: Option<String>,
}

/// A snapshot in the operator's snapshot bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3Snapshot {
    /// Maximum height of the snapshot: the latest one at or below it is restored. A bootstrap pod stops at this height.
    #[schemars(range(min = 1))]
    pub target_height: i64,
}

/// State sync. It has no options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateSync {}

/// Snapshots that a node generates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SNAPSHOT_GENERATION)))]
pub struct SnapshotGeneration {
    /// Snapshots for state sync, in the format of Tendermint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tendermint: Option<TendermintSnapshotGeneration>,
}

/// State sync snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::TENDERMINT_SNAPSHOTS)))]
pub struct TendermintSnapshotGeneration {
    /// Number of recent snapshots to keep.
    #[schemars(range(min = 1))]
    pub keep_recent: i32,

    /// Uploads complete snapshots to the operator's snapshot bucket. If unset, they are not uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<Publish>,
}

/// Upload of snapshots. It has no options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Publish {}
