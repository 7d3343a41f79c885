//! The desired state of a `SeiNodeDeployment`.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GenesisCeremonyConfig, SeiNodeDeploymentStatus, UpdateStrategy, rules};
use crate::rule::validations;
use crate::schema;
use crate::sei_node::SeiNodeSpec;

/// Desired state of the fleet.
#[expect(clippy::duplicated_attributes, reason = "columns may have the same type")]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "sei.io",
    version = "v1alpha1",
    kind = "SeiNodeDeployment",
    doc = "SeiNodeDeployment is a fleet of Sei nodes that are created from one template.",
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
        description = "Phase of the fleet",
        json_path = ".status.phase"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        description = "Number of running nodes",
        json_path = ".status.readyReplicas"
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        description = "Number of nodes",
        json_path = ".status.replicas"
    ),
    printcolumn(
        name = "Updated",
        type_ = "integer",
        description = "Number of nodes that match the template",
        json_path = ".status.updatedReplicas"
    ),
    printcolumn(
        name = "Unavailable",
        type_ = "integer",
        description = "Number of nodes that are missing, not ready or behind their chain",
        json_path = ".status.unavailableReplicas"
    ),
    printcolumn(
        name = "Image",
        type_ = "string",
        description = "seid image in the template",
        json_path = ".spec.template.spec.image"
    ),
    printcolumn(
        name = "Waiting For",
        type_ = "string",
        description = "What the rollout or the plan is waiting for",
        json_path = ".status.waitingFor.target"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Revision",
        type_ = "string",
        priority = 1,
        description = "Revision of the template",
        json_path = ".status.updateRevision"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = 1,
        description = "Reason of the NodesReady condition",
        json_path = ".status.conditions[?(@.type==\"NodesReady\")].reason"
    ),
    printcolumn(
        name = "Rollout",
        type_ = "string",
        priority = 1,
        description = "Progress of the rollout, and what it waits for",
        json_path = ".status.conditions[?(@.type==\"RolloutInProgress\")].message"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::SPEC)))]
pub struct SeiNodeDeploymentSpec {
    /// Desired number of nodes. Must be 1 if the template has a signing key. Required: a default would delete nodes as soon as
    /// a manifest leaves it out.
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,

    /// Template of the nodes.
    pub template: NodeTemplate,

    /// What happens to the nodes when the fleet is deleted: Delete or Retain.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// Creates a new chain with the nodes as its initial validators. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub genesis: Option<GenesisCeremonyConfig>,

    /// Publishes the fleet through the operator's gateway. If unset, the fleet is reachable only from inside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,

    /// How nodes are updated when the template changes.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,

    /// Seconds for which a node must be ready and follow its chain until it counts as available.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86400))]
    pub min_ready_seconds: i32,

    /// Seconds after which a node that was updated and is not available stalls the rollout.
    #[serde(default = "default_progress_deadline_seconds")]
    #[schemars(range(min = 60, max = 604_800))]
    pub progress_deadline_seconds: i32,

    /// Pauses reconciliation of the fleet and its nodes while it is true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

fn default_progress_deadline_seconds() -> i32 {
    1800
}

/// The template of the nodes of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTemplate {
    /// Metadata of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the nodes, as in a `SeiNode`.
    pub spec: SeiNodeSpec,
}

/// Metadata of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels of the nodes and their pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub annotations: BTreeMap<String, String>,
}

/// What happens to the nodes when their fleet is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum DeletionPolicy {
    /// The nodes are deleted.
    #[default]
    Delete,
    /// The nodes are kept, without an owner.
    Retain,
}

/// Publication through the operator's gateway. It has no options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Networking {}
