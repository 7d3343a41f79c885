//! What is to be done: a list that the operator works through.

use api::cert_manager::Certificate;
use api::sei_node::Scheme;
use api::sidecar_wire::TaskRequest;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::seen_pod::SeenPod;

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make an object be so, in the fields that it names.
    Apply(Object),
    /// Make an object that must not exist yet.
    Create(Object),
    /// Delete this very object.
    Delete(Doomed),
    /// Give the sidecar a task.
    Submit(Transport, TaskRequest),
}

impl Action {
    /// The kind of what it is done to.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Apply(object) | Self::Create(object) => object.kind(),
            Self::Delete(Doomed::Pod(_)) => "Pod",
            Self::Delete(Doomed::Service(_)) => "Service",
            Self::Delete(Doomed::Job(_)) => "Job",
            Self::Delete(Doomed::Certificate(_)) => "Certificate",
            Self::Submit(..) => "SidecarTask",
        }
    }
}

/// An object that belongs to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// The StatefulSet.
    StatefulSet(Box<StatefulSet>),
    /// The Service, of the node or of its bootstrap pod.
    Service(Box<Service>),
    /// The proxy's configuration.
    ConfigMap(Box<ConfigMap>),
    /// The network policy.
    NetworkPolicy(Box<NetworkPolicy>),
    /// The claim of the data volume.
    Claim(Box<PersistentVolumeClaim>),
    /// The sidecar's certificate.
    Certificate(Box<Certificate>),
    /// The bootstrap Job.
    Job(Box<Job>),
}

impl Object {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::StatefulSet(_) => "StatefulSet",
            Self::Service(_) => "Service",
            Self::ConfigMap(_) => "ConfigMap",
            Self::NetworkPolicy(_) => "NetworkPolicy",
            Self::Claim(_) => "PersistentVolumeClaim",
            Self::Certificate(_) => "Certificate",
            Self::Job(_) => "Job",
        }
    }
}

/// An object that is to be deleted, as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Doomed {
    /// A pod.
    Pod(Box<SeenPod>),
    /// The bootstrap pod's Service.
    Service(Box<Service>),
    /// The bootstrap Job, and first of all its pod.
    Job(Box<Job>),
    /// The sidecar's certificate.
    Certificate(Box<Certificate>),
}

/// How a sidecar is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// By HTTP or HTTPS.
    pub scheme: Scheme,
    /// The host name that it answers to.
    pub host: String,
    /// The address of its pod, if it has one.
    pub address: Option<String>,
    /// The Secret whose certificate it must serve, by HTTPS.
    pub secret: Option<String>,
}
