//! Snapshots: what a node starts from, and what it makes for others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::rule::validations;

/// What a node starts from: exactly one of `s3` and `stateSync`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SNAPSHOT_SOURCE)))]
pub struct SnapshotSource {
    /// An archive in the operator's snapshot bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Snapshot>,

    /// Pieces of state that peers offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_sync: Option<StateSync>,

    /// How old a block may be that is trusted by its hash, for example `168h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub trust_period: Option<String>,

    /// How many blocks before the snapshot are fetched as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub backfill_blocks: Option<i64>,

    /// An image of seid that first takes the node from the snapshot to `s3.targetHeight`, in a pod of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub bootstrap_image: Option<String>,
}

/// An archive in the operator's snapshot bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3Snapshot {
    /// The newest archive that is not above this height is taken; with a bootstrap image, seid stops here.
    #[schemars(range(min = 1))]
    pub target_height: i64,
}

/// State that peers offer; there is nothing to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateSync {}

/// Snapshots that a node makes for others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SNAPSHOT_GENERATION)))]
pub struct SnapshotGeneration {
    /// Snapshots for state sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tendermint: Option<TendermintSnapshotGeneration>,
}

/// Snapshots for state sync.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::TENDERMINT_SNAPSHOTS)))]
pub struct TendermintSnapshotGeneration {
    /// How many snapshots the node keeps.
    #[schemars(range(min = 1))]
    pub keep_recent: i32,

    /// Upload finished snapshots to the operator's snapshot bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<Publish>,
}

/// Upload of snapshots; there is nothing to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Publish {}
