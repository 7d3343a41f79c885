//! The observed state around a node. The operator fills it; everything here is data.

mod partial;
mod pod;
mod secret;
mod stateful_set;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cert_manager::Certificate;
use api::sei_node::Scheme;
use api::sidecar_wire::{ChainStatus, TaskRequest, TaskResult};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub use pod::{
    ObservedContainer, ObservedContainerStatus, ObservedPod, ObservedPodCondition, ObservedPodSpec,
    ObservedPodStatus, ObservedVolume,
};
pub use secret::{KeyPair, ObservedSecret};
pub use stateful_set::ObservedStatefulSet;

use super::chain::ChainProgress;
use super::exclusive::ExclusiveUse;
use super::pace::Queued;
use super::render_cache::RenderCache;

/// The observed state around a node.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The StatefulSet with the name of the node.
    pub stateful_set: Option<Arc<ObservedStatefulSet>>,
    /// The pods with the label of the node, including those of the bootstrap Job.
    pub pods: Vec<Arc<ObservedPod>>,
    /// The Service with the name of the node.
    pub service: Option<Arc<Service>>,
    /// The ConfigMap of the proxy.
    pub proxy_config: Option<Arc<ConfigMap>>,
    /// The NetworkPolicy of the node.
    pub network_policy: Option<Arc<NetworkPolicy>>,
    /// The PodDisruptionBudget of the node.
    pub disruption_budget: Option<Arc<PodDisruptionBudget>>,
    /// The claim of the data volume: the imported one, if the node imports one.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    /// The volume of an imported claim, if it was requested.
    pub volume: VolumeObservation,
    /// The certificate of the sidecar API.
    pub certificate: Option<Arc<Certificate>>,
    /// The bootstrap Job.
    pub job: Option<Arc<Job>>,
    /// The Secrets that were requested, by name.
    pub secrets: BTreeMap<String, SecretObservation>,
    /// Which other node uses the Secret or the claim that was requested.
    pub exclusive_use: Option<ExclusiveUse>,
    /// Host names of the nodes that each label source selects, by its index in `spec.peers`, sorted.
    pub label_peers: BTreeMap<usize, Vec<String>>,
    /// The answers of the sidecar.
    pub sidecar: SidecarObservation,
    /// The progress of the node and its chain, if seid has answered.
    pub chain: Option<ChainProgress>,
    /// Since when this operator has been acting, if it is known.
    pub active_since: Option<Time>,
    /// Whether the node may be updated for something other than its own edits, if that was requested.
    pub update_slot: UpdateSlot,
    /// Writes of this reconcile that did not succeed, by kind of object.
    pub write_failures: BTreeMap<&'static str, WriteFailure>,
    /// Rendered hashes and comparisons from previous reconciles of this node.
    pub render_cache: Arc<RenderCache>,
}

/// Whether a node may be updated for something other than its own edits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UpdateSlot {
    /// Not requested.
    #[default]
    NotRequested,
    /// The node may be updated now.
    Granted,
    /// The node has to wait.
    Queued(Queued),
}

/// The observed volume of an imported claim.
#[derive(Clone, Debug, Default)]
pub enum VolumeObservation {
    /// The volume does not exist.
    #[default]
    Missing,
    /// The volume exists.
    Found(Arc<PersistentVolume>),
    /// The operator is not permitted to read volumes, which are cluster-scoped: its installation has namespaced permissions only.
    NotPermitted,
}

/// The observed state of a Secret.
#[derive(Clone, Debug)]
pub enum SecretObservation {
    /// The Secret exists.
    Found(Arc<ObservedSecret>),
    /// The Secret does not exist.
    Missing,
    /// The Secret could not be read, with the error.
    Unreadable(String),
}

/// Why the API server did not execute a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The same write will never be accepted.
    Rejected(String),
    /// Another field manager owns fields of the object.
    Conflict(String),
    /// Permissions, a quota, a webhook or a missing kind prevent the write, the server is overloaded, or its answer was lost.
    /// The write is retried with backoff.
    Transient(String),
}

impl WriteFailure {
    /// Returns the message of the API server.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Rejected(why) | Self::Conflict(why) | Self::Transient(why) => why,
        }
    }
}

/// The answers of a sidecar.
#[derive(Clone, Debug, Default)]
pub struct SidecarObservation {
    /// Whether it lets seid run.
    pub health: Health,
    /// The state of the task with this id, if it was queried.
    pub task: (String, TaskObservation),
    /// The answer to the last submission, with the id of the task.
    pub submission: Option<(String, Submission)>,
    /// How its API is served, if that was queried.
    pub serving: ServingObservation,
    /// The state of the chain, if it was queried.
    pub chain: ChainObservation,
    /// The answer to the dry-run of this task, if it was queried.
    pub dry_run: Option<(TaskRequest, DryRunObservation)>,
}

impl SidecarObservation {
    /// Returns the state of a task. An answer about another task counts as none.
    pub(super) fn task_state(&self, id: &str) -> &TaskObservation {
        if self.task.0 == id { &self.task.1 } else { &TaskObservation::Unknown }
    }

    /// Returns the answer to the dry-run of a task. An answer about another task counts as none.
    pub(super) fn dry_run_of(&self, request: &TaskRequest) -> &DryRunObservation {
        let answer = self.dry_run.as_ref().filter(|(asked, _)| asked == request);
        answer.map_or(&DryRunObservation::Unknown, |(_, answer)| answer)
    }

    /// Returns the answer to the submission of a task in this reconcile.
    pub(super) fn submission_of(&self, id: &str) -> Option<&Submission> {
        self.submission.as_ref().filter(|(task, _)| task == id).map(|(_, answer)| answer)
    }
}

/// Whether a sidecar lets seid run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Not queried, or the answer is pending.
    #[default]
    Unknown,
    /// The sidecar lets seid run.
    Ready,
    /// The sidecar waits for the task mark-ready.
    NotReady,
    /// The sidecar does not answer, or gives neither answer, with the error.
    Unreachable(String),
}

/// The state of a sidecar task.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TaskObservation {
    /// Not queried, or the answer is pending.
    #[default]
    Unknown,
    /// The sidecar has no task with this id.
    NotFound,
    /// The task as the sidecar reports it.
    Found(Box<TaskResult>),
    /// The sidecar does not answer, with the error.
    Unreachable(String),
}

/// The state of the chain, as a sidecar reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChainObservation {
    /// Not queried, or the answer is pending.
    #[default]
    Unknown,
    /// The sidecar is older than this query.
    NotSupported,
    /// The sidecar or its seid does not answer, with the error.
    Unavailable(String),
    /// The answer. Its `app_hash_at` may be about the height of a previous query.
    Found(Box<ChainStatus>),
}

/// The answer of a sidecar to the dry-run of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DryRunObservation {
    /// Not queried, or the answer is pending.
    #[default]
    Unknown,
    /// The task would be accepted and succeed, as far as the sidecar can know.
    Valid,
    /// The task would fail, with its error.
    Rejected(String),
    /// The sidecar is older than this query.
    NotSupported,
    /// The sidecar does not answer, or gives none of these answers, with the error.
    Unavailable(String),
}

/// The answer of a sidecar to a submitted task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Submission {
    /// The answer is pending.
    #[default]
    Pending,
    /// The task was accepted.
    Accepted,
    /// The task will never be accepted, with the error.
    Rejected(String),
    /// It is unknown whether the task was accepted, with the error.
    Unknown(String),
}

/// How a sidecar API is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServingObservation {
    /// Not queried, or the answer is pending.
    #[default]
    Unknown,
    /// Served with this scheme. With TLS, the hexadecimal SHA-256 of the served certificate.
    Serving(Scheme, Option<String>),
    /// Not served as queried, with the error.
    Mismatch(String),
}
