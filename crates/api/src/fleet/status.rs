//! What the operator has seen.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UpdateStrategyType;
use crate::schema;
use crate::sei_node::{FailedPlan, SeiNodePhase, TaskPlan, WaitingFor};

/// What the operator has seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeiNodeDeploymentStatus {
    /// Where the fleet is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<FleetPhase>,

    /// The newest generation of the spec that the operator has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The newest generation of the spec that every node has fully reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled_generation: Option<i64>,

    /// What holds of the fleet, each with its reason: see docs/reference/conditions.md.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// How many nodes there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// How many nodes run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,

    /// How many nodes are as the template says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,

    /// Selects the pods of the fleet, for whoever scales it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// Each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub nodes: Vec<NodeSummary>,

    /// Hash of the template that the nodes were last brought to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_hash: Option<String>,

    /// What is being done to the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<TaskPlan>,

    /// The step of the plan and how many there are, as `3/7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_step: Option<String>,

    /// What has to happen before the plan goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,

    /// The last plan that failed, kept until one for the same purpose succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_plan: Option<FailedPlan>,

    /// The update that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,

    /// Nodes that serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incumbent_nodes: Vec<String>,

    /// SHA-256 of the genesis file that the ceremony made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub genesis_hash: Option<String>,

    /// Where the genesis file is.
    #[serde(default, rename = "genesisS3URI", skip_serializing_if = "Option::is_none")]
    pub genesis_s3_uri: Option<String>,

    /// How the fleet is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking_status: Option<NetworkingStatus>,

    /// The Service that spreads requests over the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_service: Option<InternalService>,

    /// The Service of each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub per_pod_services: Vec<PerPodService>,

    /// Addresses for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<FleetEndpoints>,
}

/// Where a fleet is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum FleetPhase {
    /// There are no nodes yet.
    Pending,
    /// Nodes are being set up.
    Initializing,
    /// Every node runs.
    Ready,
    /// Nodes are being brought to a changed template.
    Upgrading,
    /// Some nodes failed.
    Degraded,
    /// Every node failed.
    Failed,
    /// Being deleted.
    Terminating,
}

/// One node of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// The node's name.
    pub name: String,

    /// Where the node is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<SeiNodePhase>,

    /// The image of seid that the node runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_image: Option<String>,
}

/// An update that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How it is done.
    pub strategy: UpdateStrategyType,

    /// Hash of the template that the nodes are brought to.
    pub target_hash: String,

    /// When it began.
    pub started_at: Time,

    /// Nodes that serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incumbent_nodes: Vec<String>,

    /// Nodes that take over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entrant_nodes: Vec<String>,

    /// The revision that serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incumbent_revision: Option<String>,

    /// The revision that takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrant_revision: Option<String>,
}

/// How a fleet is published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkingStatus {
    /// Names under which the fleet is reached from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteStatus>,
}

/// One name under which a fleet is reached from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteStatus {
    /// The host name.
    pub hostname: String,

    /// What is spoken there: evm, rpc, rest or grpc.
    pub protocol: String,
}

/// The Service that spreads requests over the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InternalService {
    /// The Service's name.
    pub name: String,

    /// The Service's namespace.
    pub namespace: String,

    /// The Service's ports.
    pub ports: InternalServicePorts,
}

/// Ports of the Service that spreads requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InternalServicePorts {
    /// Tendermint RPC.
    pub rpc: i32,

    /// EVM JSON-RPC by HTTP.
    pub evm_http: i32,

    /// REST.
    pub rest: i32,
}

/// The Service of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerPodService {
    /// The Service's name.
    pub name: String,

    /// The Service's namespace.
    pub namespace: String,

    /// The Service's ports.
    pub ports: PerPodPorts,
}

/// Ports of one node whose clients must stay with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerPodPorts {
    /// EVM JSON-RPC by HTTP.
    pub evm_http: i32,

    /// EVM JSON-RPC by WebSocket.
    pub evm_ws: i32,
}

/// Addresses for clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetEndpoints {
    /// Tendermint RPC of any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tendermint_rpc: Option<String>,

    /// REST of any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tendermint_rest: Option<String>,

    /// Addresses of each node, for protocols whose clients must stay with one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeEndpoints>,
}

/// Addresses of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEndpoints {
    /// The node's name.
    pub name: String,

    /// EVM JSON-RPC by HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evm_json_rpc: Option<String>,

    /// EVM JSON-RPC by WebSocket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evm_ws: Option<String>,
}
