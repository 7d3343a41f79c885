//! What a user asks for.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use super::{
    ArchiveSpec, DataVolume, FullNodeSpec, PeerSource, ReplayerSpec, SeiNodeStatus, SidecarConfig,
    ValidatorSpec,
};
use crate::rule::validations;
use crate::schema;

/// What the node is to be.
#[expect(clippy::duplicated_attributes, reason = "columns may have the same type")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "sei.io",
    version = "v1alpha1",
    kind = "SeiNode",
    doc = "One node of a Sei chain: a pod with seid and its sidecar, the volume it keeps its data on, and a Service.",
    namespaced,
    shortname = "snode",
    category = "sei",
    status = "SeiNodeStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Phase",
        type_ = "string",
        description = "Where the node is in its life",
        json_path = ".status.phase"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        description = "Whether the node is as its spec says, and working",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Image",
        type_ = "string",
        description = "The seid image that runs",
        json_path = ".status.currentImage"
    ),
    printcolumn(
        name = "Step",
        type_ = "string",
        description = "The step of the plan that is being carried out",
        json_path = ".status.planStep"
    ),
    printcolumn(
        name = "Waiting For",
        type_ = "string",
        description = "What has to happen next",
        json_path = ".status.waitingFor.target"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = 1,
        description = "Why the node is ready, or is not",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Chain",
        type_ = "string",
        priority = 1,
        description = "The chain that the node belongs to",
        json_path = ".spec.chainId"
    ),
    printcolumn(
        name = "Wanted Image",
        type_ = "string",
        priority = 1,
        description = "The seid image that is to run",
        json_path = ".spec.image"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SPEC)))]
pub struct SeiNodeSpec {
    /// The chain that the node belongs to, for example `pacific-1`. It is part of host names and labels, and cannot change.
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = validations(rules::CHAIN_ID)))]
    pub chain_id: String,

    /// The image of seid.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,

    /// Where the node finds its first peers. A replayer needs at least one source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub peers: Vec<PeerSource>,

    /// Deprecated and not applied: seid is always started by Outrigger's own command. Accepted so that older manifests stay valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Entrypoint>,

    /// Settings of seid that differ from the defaults of its kind: dotted names to values, for example
    /// `network.rpc.max_open_connections: "2000"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::settings")]
    pub overrides: BTreeMap<String, String>,

    /// The sidecar that prepares the node and watches over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar: Option<SidecarConfig>,

    /// Labels for the node's pod. Those that Outrigger sets itself (`sei.io/node`, `sei.io/chain`, `sei.io/role`) win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub pod_labels: BTreeMap<String, String>,

    /// The volume that holds the chain's data. Absent: one is made for the node, and deleted with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_volume: Option<DataVolume>,

    /// Where other nodes reach this one, as `host:port`. Absent: it does not announce an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = validations(rules::EXTERNAL_ADDRESS)))]
    pub external_address: Option<String>,

    /// Leave the node as it is: nothing is changed, started or stopped until this is false again. What would be done is still
    /// reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,

    /// The node follows the chain and serves queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_node: Option<FullNodeSpec>,

    /// The node follows the chain from its first block and keeps all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchiveSpec>,

    /// The node starts from a snapshot and replays blocks, to compare results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayer: Option<ReplayerSpec>,

    /// The node validates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validator: Option<ValidatorSpec>,
}

/// A command for the container of seid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entrypoint {
    /// The program and its first arguments.
    #[schemars(length(min = 1, max = 16), inner(length(max = 65536)))]
    pub command: Vec<String>,

    /// Further arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 65536)))]
    pub args: Vec<String>,
}
