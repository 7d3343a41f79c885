//! The observed state of a `SeiNode`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    FailedPlan, IssuerKind, KeyringSecret, PeerSource, Scheduling, SeiNodeSpec, SidecarIsolation,
    SnapshotSource, TaskPlan, WaitingFor,
};
use crate::schema;

/// Observed state of the node. Written only by the operator, which uses it to choose the transport to the sidecar.
///
/// The `current...` fields describe the running pod, one for each way in which it can drift from the spec. An unset field was
/// never observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeiNodeStatus {
    /// Phase of the node: Pending, Initializing, Running, Failed or Terminating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<SeiNodePhase>,

    /// Time of the last phase change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_transition_time: Option<Time>,

    /// Most recent generation observed by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Most recent generation that was fully applied to the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled_generation: Option<i64>,

    /// Spec that was last fully applied to the node, without `paused`. A failed update returns to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any")]
    pub applied_spec: Option<Box<SeiNodeSpec>>,

    /// Whether another controller set up the node, and its spec was not edited since. Then nothing is changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,

    /// Conditions of the node. Types and reasons are documented in docs/reference/conditions.md.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// Plan that is being executed, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<TaskPlan>,

    /// Last value of the annotation `outrigger.dev/retry`. Another value retries a failed plan at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_requested: Option<String>,

    /// Current step of the plan and number of steps, for example `3/7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_step: Option<String>,

    /// What the plan is waiting for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,

    /// Most recent failed plan. It is kept until a plan with the same purpose succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_plan: Option<FailedPlan>,

    /// Host names of the peers selected by labels, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved_peers: Vec<String>,

    /// External address of the node, if `spec.externalAddress` is unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_address: Option<String>,

    /// Image of the running seid container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_image: Option<String>,

    /// Compute resources from `spec.resources` in the running pod. Empty if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::requests_and_limits")]
    pub current_resources: Option<ResourceRequirements>,

    /// Settings from `spec.scheduling` in the running pod. Empty if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_scheduling: Option<Scheduling>,

    /// Image of the running sidecar container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_sidecar_image: Option<String>,

    /// Port that the running sidecar listens on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_sidecar_port: Option<i32>,

    /// Compute resources of the running sidecar container. Empty if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub current_sidecar_resources: Option<ResourceRequirements>,

    /// Isolation of the containers of the running pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_sidecar_isolation: Option<SidecarIsolation>,

    /// Observed transport of the sidecar's API. The operator connects in this way, regardless of the spec.
    #[serde(default, rename = "currentSidecarTLS", skip_serializing_if = "Option::is_none")]
    pub current_sidecar_tls: Option<ObservedTls>,

    /// Image of the running proxy container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_proxy_image: Option<String>,

    /// Hash of the configuration of the running proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_proxy_config_hash: Option<String>,

    /// Labels of the running pod that come from `spec.podLabels`. Empty if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_labels: Option<BTreeMap<String, String>>,

    /// Overrides from `spec.overrides` in the running seid's configuration. Empty if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_overrides: Option<BTreeMap<String, String>>,

    /// Sources from `spec.peers` in the running seid's configuration. Empty if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_peers: Option<Vec<PeerSource>>,

    /// External address that the running seid advertises. Empty if it advertises none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_external_address: Option<String>,

    /// Secrets of the running validator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_keys: Option<ObservedKeys>,

    /// Snapshot generation of the running seid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_snapshot_generation: Option<ObservedSnapshotGeneration>,

    /// Snapshot that the node was initialized from. It does not change afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_from: Option<StartedFrom>,
}

/// Secrets of a running validator. Each is unset if the validator does not have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedKeys {
    /// Name of the Secret with the signing key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<String>,

    /// Name of the Secret with the node key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_key: Option<String>,

    /// Secrets of the operator keyring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_keyring: Option<KeyringSecret>,
}

/// Snapshot generation of a running seid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedSnapshotGeneration {
    /// Number of recent snapshots that seid keeps. 0 if it generates none.
    pub keep_recent: i32,

    /// Whether snapshots are uploaded.
    pub publish: bool,
}

/// What a node was initialized from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedFrom {
    /// Snapshot that was restored. Unset if the node synced from the first block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotSource>,
}

/// The phase of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum SeiNodePhase {
    /// The operator has not created anything yet.
    Pending,
    /// The node is being set up.
    Initializing,
    /// The node is set up. It stays in this phase during updates.
    Running,
    /// The setup failed. It is retried as soon as the spec changes.
    Failed,
    /// The node is being deleted.
    Terminating,
}

/// Observed transport of the sidecar's API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedTls {
    /// Scheme of the sidecar's API: http or https. Set in both cases, because plain HTTP differs from never observed.
    pub scheme: Scheme,

    /// Name of the issuer of the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_name: Option<String>,

    /// Kind of the issuer of the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_kind: Option<IssuerKind>,

    /// Name of the Secret with the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
}

/// The scheme of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = schema::undescribed)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}
