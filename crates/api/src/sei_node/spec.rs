//! The desired state of a `SeiNode`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use super::{
    ArchiveSpec, DataVolume, FullNodeSpec, PeerSource, ReplayerSpec, Scheduling, SeiNodeStatus,
    SidecarConfig, Storage, ValidatorSpec,
};
use crate::rule::validations;
use crate::schema;

/// Desired state of the node.
#[expect(clippy::duplicated_attributes, reason = "columns may have the same type")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "sei.io",
    version = "v1alpha1",
    kind = "SeiNode",
    doc = "SeiNode is a single node of a Sei chain: a pod with seid and its sidecar, a data volume and a Service.",
    namespaced,
    shortname = "snode",
    category = "sei",
    status = "SeiNodeStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Phase",
        type_ = "string",
        description = "Phase of the node",
        json_path = ".status.phase"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        description = "Whether the node runs and matches its spec",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Image",
        type_ = "string",
        description = "seid image of the running pod",
        json_path = ".status.currentImage"
    ),
    printcolumn(
        name = "Step",
        type_ = "string",
        description = "Current step of the plan",
        json_path = ".status.planStep"
    ),
    printcolumn(
        name = "Waiting For",
        type_ = "string",
        description = "What the plan is waiting for",
        json_path = ".status.waitingFor.target"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = 1,
        description = "Reason of the Ready condition",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Chain",
        type_ = "string",
        priority = 1,
        description = "Chain of the node",
        json_path = ".spec.chainId"
    ),
    printcolumn(
        name = "Wanted Image",
        type_ = "string",
        priority = 1,
        description = "seid image in the spec",
        json_path = ".spec.image"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SPEC)))]
pub struct SeiNodeSpec {
    /// ID of the chain that the node belongs to, for example `pacific-1`. It is part of host names and labels. Immutable.
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = validations(rules::CHAIN_ID)))]
    pub chain_id: String,

    /// Expected SHA-256 of the genesis file in lower-case hexadecimal. A file with another hash is not used. If unset, the file in
    /// the genesis bucket is trusted, unless the chain is a well-known one. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub genesis_hash: Option<String>,

    /// Image of seid.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,

    /// Sources of the node's initial peers. A replayer requires at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub peers: Vec<PeerSource>,

    /// Deprecated: has no effect, because Outrigger always starts seid with its own command. Accepted so that existing manifests
    /// stay valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Entrypoint>,

    /// Overrides of the default seid configuration: dotted field names to values, for example
    /// `network.rpc.max_open_connections: "2000"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::settings")]
    pub overrides: BTreeMap<String, String>,

    /// Settings of the sidecar, which prepares and supervises the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar: Option<SidecarConfig>,

    /// Compute resources of the seid container. The requests configured on the operator apply to cpu and memory, unless a request
    /// or a limit is set here. Changes apply to a running node and replace its pod once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::requests_and_limits")]
    pub resources: Option<ResourceRequirements>,

    /// Where the pod may run, in addition to the defaults of the platform. Changes apply to a running node and replace its pod
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,

    /// Additional labels of the pod. Labels that Outrigger sets (`sei.io/node`, `sei.io/chain`, `sei.io/role`) take precedence.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub pod_labels: BTreeMap<String, String>,

    /// Volume for the chain data. If unset, a volume is created for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_volume: Option<DataVolume>,

    /// Size and class of the volume that is created for the node. Not allowed with `dataVolume.import`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,

    /// Address that the node advertises to peers, as `host:port`. If unset, it does not advertise one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = validations(rules::EXTERNAL_ADDRESS)))]
    pub external_address: Option<String>,

    /// Pauses reconciliation: nothing is changed, started or stopped while it is true. The status still reports pending changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,

    /// Configures a full node, which follows the chain and serves queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_node: Option<FullNodeSpec>,

    /// Configures an archive node, which keeps the whole chain from its first block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchiveSpec>,

    /// Configures a replayer, which replays blocks from a snapshot and compares their results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayer: Option<ReplayerSpec>,

    /// Configures a validator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validator: Option<ValidatorSpec>,
}

/// A command for the seid container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entrypoint {
    /// Entrypoint array of the container.
    #[schemars(length(min = 1, max = 16), inner(length(max = 65536)))]
    pub command: Vec<String>,

    /// Arguments to the entrypoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 65536)))]
    pub args: Vec<String>,
}
