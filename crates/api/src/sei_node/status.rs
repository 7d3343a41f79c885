//! What the operator has seen.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FailedPlan, IssuerKind, KeyringSecret, PeerSource, SnapshotSource, TaskPlan, WaitingFor};
use crate::schema;

/// What the operator has seen. Only the operator may write it: the transport to the sidecar follows it.
///
/// The fields `current...` mirror what the running pod was made of, one for each way in which it can fall behind the spec.
/// An absent mirror was never observed, and says nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeiNodeStatus {
    /// Where the node is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<SeiNodePhase>,

    /// When the phase last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_transition_time: Option<Time>,

    /// The newest generation of the spec that the operator has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The newest generation of the spec that the node has fully reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled_generation: Option<i64>,

    /// What holds of the node, each with its reason: see docs/reference/conditions.md.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// What is being done to the node.
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

    /// Host names of the peers that labels selected, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved_peers: Vec<String>,

    /// Where other nodes reach this one, when `spec.externalAddress` does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_address: Option<String>,

    /// The image of seid that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_image: Option<String>,

    /// The image of the sidecar that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_sidecar_image: Option<String>,

    /// The port that the sidecar listens on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_sidecar_port: Option<i32>,

    /// The resources of the sidecar's container; empty when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub current_sidecar_resources: Option<ResourceRequirements>,

    /// How the sidecar's API was seen to be served. The operator speaks to it in this way, whatever the spec says.
    #[serde(default, rename = "currentSidecarTLS", skip_serializing_if = "Option::is_none")]
    pub current_sidecar_tls: Option<ObservedTls>,

    /// The image of the proxy that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_proxy_image: Option<String>,

    /// Hash of the configuration that the proxy runs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_proxy_config_hash: Option<String>,

    /// The labels from `spec.podLabels` that the pod carries; empty when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_labels: Option<BTreeMap<String, String>>,

    /// The settings from `spec.overrides` that seid runs with; empty when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_overrides: Option<BTreeMap<String, String>>,

    /// The sources from `spec.peers` that seid was given peers of; empty when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_peers: Option<Vec<PeerSource>>,

    /// The external address that seid announces; empty when it announces none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_external_address: Option<String>,

    /// The Secrets that a validator runs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_keys: Option<ObservedKeys>,

    /// The snapshots that seid makes for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_snapshot_generation: Option<ObservedSnapshotGeneration>,

    /// What the node began with. Nothing can change it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_from: Option<StartedFrom>,
}

/// The Secrets that a validator runs with; each absent when it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedKeys {
    /// The Secret of the key that signs blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<String>,

    /// The Secret of the key that identifies the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_key: Option<String>,

    /// The Secrets of the operating account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_keyring: Option<KeyringSecret>,
}

/// The snapshots that seid makes for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedSnapshotGeneration {
    /// How many snapshots it keeps; 0 when it makes none.
    pub keep_recent: i32,

    /// Whether they are uploaded.
    pub publish: bool,
}

/// What a node began with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedFrom {
    /// The snapshot. Absent: the chain's first block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotSource>,
}

/// Where a node is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum SeiNodePhase {
    /// Seen, nothing done yet.
    Pending,
    /// Being set up.
    Initializing,
    /// Set up. Later updates do not leave this phase.
    Running,
    /// Could not be set up. An edit that removes the cause is taken up at once.
    Failed,
    /// Being deleted.
    Terminating,
}

/// How the sidecar's API was seen to be served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedTls {
    /// By HTTP or HTTPS. Written down in both cases: "seen without TLS" must differ from "never seen".
    pub scheme: Scheme,

    /// The issuer of the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_name: Option<String>,

    /// What the issuer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_kind: Option<IssuerKind>,

    /// The Secret that holds the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
}

/// How an API is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = schema::undescribed)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// By TLS.
    Https,
}
