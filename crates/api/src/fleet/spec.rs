//! What a user asks for.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GenesisCeremonyConfig, SeiNodeDeploymentStatus, UpdateStrategy, rules};
use crate::rule::validations;
use crate::schema;
use crate::sei_node::SeiNodeSpec;

/// What the fleet is to be.
#[expect(clippy::duplicated_attributes, reason = "columns may have the same type")]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "sei.io",
    version = "v1alpha1",
    kind = "SeiNodeDeployment",
    doc = "A fleet of Sei nodes that are made from one template.",
    namespaced,
    shortname = "snd",
    category = "sei",
    status = "SeiNodeDeploymentStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        description = "Where the fleet is in its life",
        json_path = ".status.phase"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        description = "Nodes that run",
        json_path = ".status.readyReplicas"
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        description = "Nodes there are",
        json_path = ".status.replicas"
    ),
    printcolumn(
        name = "Updated",
        type_ = "integer",
        description = "Nodes that are as the template says",
        json_path = ".status.updatedReplicas"
    ),
    printcolumn(
        name = "Image",
        type_ = "string",
        description = "The seid image that is to run",
        json_path = ".spec.template.spec.image"
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
        name = "Revision",
        type_ = "string",
        priority = 1,
        description = "The revision that is being rolled out",
        json_path = ".status.rollout.entrantRevision"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = 1,
        description = "Why the nodes are ready, or are not",
        json_path = ".status.conditions[?(@.type==\"NodesReady\")].reason"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SPEC)))]
pub struct SeiNodeDeploymentSpec {
    /// How many nodes there are to be. With a signing key in the template only 1 is allowed.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,

    /// What each node is made from.
    pub template: NodeTemplate,

    /// What becomes of the nodes when the fleet is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// Make a new chain with these nodes as its first validators. Decided when the fleet is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub genesis: Option<GenesisCeremonyConfig>,

    /// Publish the fleet through the operator's gateway. Absent: it is reached only from inside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,

    /// How the nodes are brought to a changed template.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,

    /// Leave the fleet and its nodes as they are until this is false again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

fn one() -> i32 {
    1
}

/// What each node is made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTemplate {
    /// Labels and annotations of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,

    /// What each node is to be: the spec of a `SeiNode`.
    pub spec: SeiNodeSpec,
}

/// Labels and annotations of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels of the nodes and of their pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub annotations: BTreeMap<String, String>,
}

/// What becomes of the nodes when their fleet is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum DeletionPolicy {
    /// They go with it.
    #[default]
    Delete,
    /// They stay, and belong to nobody.
    Retain,
}

/// Publication through the operator's gateway; there is nothing to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Networking {}
