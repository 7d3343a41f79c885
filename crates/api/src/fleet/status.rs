//! The observed state of a `SeiNodeDeployment`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UpdateStrategyType;
use crate::schema;
use crate::sei_node::{FailedPlan, SeiNodePhase, TaskPlan, WaitingFor};

/// Observed state of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeiNodeDeploymentStatus {
    /// Phase of the fleet: Pending, Initializing, Ready, Upgrading, Degraded, Failed or Terminating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<FleetPhase>,

    /// Most recent generation observed by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Most recent generation that was fully applied to every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled_generation: Option<i64>,

    /// Conditions of the fleet. Types and reasons are documented in docs/reference/conditions.md.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// Number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Number of running nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,

    /// Number of nodes that match the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,

    /// Number of nodes that are ready and follow their chain, for at least `spec.minReadySeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,

    /// Number of desired nodes that are not available, whatever the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,

    /// Revision that all nodes had when they were last available together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,

    /// Revision of the template, or the one that the annotation `outrigger.dev/rollback-to` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,

    /// Number of names of revisions that were taken by another template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,

    /// Label selector of the fleet's pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// Nodes of the fleet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub nodes: Vec<NodeSummary>,

    /// Hash of the template that the upstream controller last rolled out to the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_hash: Option<String>,

    /// Plan that is being executed, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<TaskPlan>,

    /// Current step of the plan and number of steps, for example `3/7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_step: Option<String>,

    /// What the plan is waiting for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,

    /// Most recent failed plan. It is kept until a plan with the same purpose succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_plan: Option<FailedPlan>,

    /// Rollout in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,

    /// Names of the nodes that serve traffic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incumbent_nodes: Vec<String>,

    /// SHA-256 of the genesis file that the ceremony created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub genesis_hash: Option<String>,

    /// S3 URI of the genesis file.
    #[serde(default, rename = "genesisS3URI", skip_serializing_if = "Option::is_none")]
    pub genesis_s3_uri: Option<String>,

    /// Publication of the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking_status: Option<NetworkingStatus>,

    /// Service that balances requests over the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_service: Option<InternalService>,

    /// Services of the single nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub per_pod_services: Vec<PerPodService>,

    /// Endpoints for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<FleetEndpoints>,
}

/// The phase of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum FleetPhase {
    /// No node exists yet.
    Pending,
    /// Nodes are being set up.
    Initializing,
    /// All nodes run.
    Ready,
    /// Nodes are being updated to a changed template.
    Upgrading,
    /// Some nodes failed.
    Degraded,
    /// All nodes failed.
    Failed,
    /// The fleet is being deleted.
    Terminating,
}

/// A node of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// Name of the node.
    pub name: String,

    /// Phase of the node: Pending, Initializing, Running, Failed or Terminating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<SeiNodePhase>,

    /// Image of the running seid container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_image: Option<String>,

    /// Ordinal of the node in the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<i32>,

    /// Revision of the template that the node has. It is kept while the node is missing, which is created with it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,

    /// State of the node in the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<FleetNodeState>,

    /// Time at which the node entered this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,

    /// Reason for the state, from the conditions of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Time at which the node was available for the first time. Only such nodes count as disrupted when they are not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub established_at: Option<Time>,

    /// Last known voting power of the validator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voting_power: Option<i64>,
}

/// The state of a node in its fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum FleetNodeState {
    /// Ready, and it follows its chain, for at least `spec.minReadySeconds`.
    Available,
    /// It was updated and is not available yet.
    Updating,
    /// It was updated and is not available before the progress deadline, or its container cannot start.
    FailedUpdate,
    /// It is not available, and no update is the cause.
    Broken,
    /// It is behind its chain.
    CatchingUp,
    /// Its sidecar does not answer.
    Unknown,
    /// It is being set up.
    Starting,
    /// It does not exist, or is being deleted.
    Missing,
    /// An object with its name belongs to something else.
    NameConflict,
}

/// A rollout in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Update strategy of the rollout.
    pub strategy: UpdateStrategyType,

    /// Revision that is being rolled out.
    pub target_hash: String,

    /// Time at which the rollout started.
    pub started_at: Time,

    /// Names of the nodes that serve traffic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incumbent_nodes: Vec<String>,

    /// Names of the nodes that will take over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entrant_nodes: Vec<String>,

    /// Revision of the nodes that serve traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incumbent_revision: Option<String>,

    /// Revision of the nodes that will take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrant_revision: Option<String>,
}

/// Publication of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkingStatus {
    /// Routes through which the fleet is reachable from outside the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteStatus>,
}

/// A route to a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteStatus {
    /// Host name of the route.
    pub hostname: String,

    /// Protocol of the route: evm, rpc, rest or grpc.
    pub protocol: String,
}

/// The Service that balances requests over the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InternalService {
    /// Name of the Service.
    pub name: String,

    /// Namespace of the Service.
    pub namespace: String,

    /// Ports of the Service.
    pub ports: InternalServicePorts,
}

/// Ports of the Service that balances requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InternalServicePorts {
    /// Port of the Tendermint RPC.
    pub rpc: i32,

    /// Port of the EVM JSON-RPC over HTTP.
    pub evm_http: i32,

    /// Port of the REST API.
    pub rest: i32,
}

/// The Service of a single node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerPodService {
    /// Name of the Service.
    pub name: String,

    /// Namespace of the Service.
    pub namespace: String,

    /// Ports of the Service.
    pub ports: PerPodPorts,
}

/// Ports of a single node, for clients that must not be balanced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerPodPorts {
    /// Port of the EVM JSON-RPC over HTTP.
    pub evm_http: i32,

    /// Port of the EVM JSON-RPC over WebSocket.
    pub evm_ws: i32,
}

/// Endpoints for clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetEndpoints {
    /// URL of the Tendermint RPC, balanced over the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tendermint_rpc: Option<String>,

    /// URL of the REST API, balanced over the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tendermint_rest: Option<String>,

    /// Endpoints of the single nodes, for protocols whose clients must not be balanced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeEndpoints>,
}

/// Endpoints of a single node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEndpoints {
    /// Name of the node.
    pub name: String,

    /// URL of the EVM JSON-RPC over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evm_json_rpc: Option<String>,

    /// URL of the EVM JSON-RPC over WebSocket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evm_ws: Option<String>,
}
