//! The actions that the operator executes for a decision.

use api::cert_manager::Certificate;
use api::sei_node::Scheme;
use api::sidecar_wire::TaskRequest;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::observed::ObservedPod;

/// One action of the operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Apply an object (server-side apply of the fields it names).
    Apply(Object),
    /// Create an object. It must not exist yet.
    Create(Object),
    /// Delete an object, with its uid as a precondition.
    Delete(Deletion),
    /// Change the owners of the claim of the data volume.
    SetClaimOwnership(Box<ClaimOwnership>),
    /// Change the owners of the Secret that cert-manager issued.
    SetSecretOwnership(Box<SecretOwnership>),
    /// Submit a task to the sidecar.
    Submit(Transport, TaskRequest),
}

impl Action {
    /// Returns the kind of the object that the action changes.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Apply(object) | Self::Create(object) => object.kind(),
            Self::Delete(deletion) => deletion.kind(),
            Self::SetClaimOwnership(_) => "PersistentVolumeClaim",
            Self::SetSecretOwnership(_) => "Secret",
            Self::Submit(..) => "SidecarTask",
        }
    }
}

/// The owners of a claim, and the labels that say so.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimOwnership {
    /// The claim as it was observed. The change must be based on this version.
    pub claim: PersistentVolumeClaim,
    /// All owner references.
    pub owner_references: Vec<OwnerReference>,
    /// The labels to set, or to remove.
    pub labels: Vec<(&'static str, Option<String>)>,
}

/// The owners of a Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct SecretOwnership {
    /// The Secret as it was observed. The change must be based on this version.
    pub secret: Secret,
    /// All owner references.
    pub owner_references: Vec<OwnerReference>,
}

/// An object that belongs to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// The StatefulSet.
    StatefulSet(Box<StatefulSet>),
    /// The Service of the node, or of its bootstrap pod.
    Service(Box<Service>),
    /// The configuration of the proxy.
    ConfigMap(Box<ConfigMap>),
    /// The NetworkPolicy.
    NetworkPolicy(Box<NetworkPolicy>),
    /// The PodDisruptionBudget of a validator.
    DisruptionBudget(Box<PodDisruptionBudget>),
    /// The claim of the data volume.
    Claim(Box<PersistentVolumeClaim>),
    /// The certificate of the sidecar API.
    Certificate(Box<Certificate>),
    /// The bootstrap Job.
    Job(Box<Job>),
}

impl Object {
    /// Returns the Kubernetes kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::StatefulSet(_) => "StatefulSet",
            Self::Service(_) => "Service",
            Self::ConfigMap(_) => "ConfigMap",
            Self::NetworkPolicy(_) => "NetworkPolicy",
            Self::DisruptionBudget(_) => "PodDisruptionBudget",
            Self::Claim(_) => "PersistentVolumeClaim",
            Self::Certificate(_) => "Certificate",
            Self::Job(_) => "Job",
        }
    }
}

/// An object to delete, as it was observed.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// A pod.
    Pod(Box<ObservedPod>),
    /// The Service of the bootstrap pod.
    Service(Box<Service>),
    /// The bootstrap Job. Its pod is deleted first.
    Job(Box<Job>),
    /// The certificate of the sidecar API.
    Certificate(Box<Certificate>),
}

impl Deletion {
    /// Returns the Kubernetes kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Pod(_) => "Pod",
            Self::Service(_) => "Service",
            Self::Job(_) => "Job",
            Self::Certificate(_) => "Certificate",
        }
    }
}

/// How to reach a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// HTTP or HTTPS.
    pub scheme: Scheme,
    /// The host name of the sidecar.
    pub host: String,
    /// The address of its pod, once assigned.
    pub address: Option<String>,
    /// With HTTPS, the Secret whose certificate the sidecar must serve.
    pub secret: Option<String>,
    /// The audience of the tokens that the proxy accepts, as the pod names it; none for a pod of another operator or a previous version.
    pub audience: Option<String>,
}
