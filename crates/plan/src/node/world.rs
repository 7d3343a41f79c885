//! What was seen of a node's surroundings. The operator fills it; everything here is data.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cert_manager::Certificate;
use api::sei_node::Scheme;
use api::sidecar_wire::TaskResult;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::memo::Memo;
use super::seen_pod::SeenPod;
use super::seen_set::SeenSet;

/// What was seen of a node's surroundings.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The StatefulSet that has the node's name.
    pub stateful_set: Option<Arc<SeenSet>>,
    /// Pods that carry the node's label, those of the bootstrap Job too.
    pub pods: Vec<Arc<SeenPod>>,
    /// The Service that has the node's name.
    pub service: Option<Arc<Service>>,
    /// The ConfigMap of the proxy.
    pub proxy_config: Option<Arc<ConfigMap>>,
    /// The node's network policy.
    pub network_policy: Option<Arc<NetworkPolicy>>,
    /// The claim of the data volume: the imported one, if one is imported.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    /// The volume behind an imported claim, if it was asked for.
    pub volume: Option<Arc<PersistentVolume>>,
    /// The sidecar's certificate.
    pub certificate: Option<Arc<Certificate>>,
    /// The bootstrap Job.
    pub job: Option<Arc<Job>>,
    /// Secrets that were asked for, by name.
    pub secrets: BTreeMap<String, SecretSight>,
    /// Host names of the nodes that each label source of peers selects, by its index in `spec.peers`, sorted.
    pub label_peers: BTreeMap<usize, Vec<String>>,
    /// What the sidecar says.
    pub sidecar: SidecarSight,
    /// What the API server refused in this pass, by kind of object.
    pub refused: BTreeMap<&'static str, Refusal>,
    /// What was computed before about this node.
    pub memo: Arc<Memo>,
}

/// What was seen of a Secret.
#[derive(Clone, Debug)]
pub enum SecretSight {
    /// It is there.
    Found(Arc<Secret>),
    /// It is not there.
    Missing,
    /// It could not be read: why.
    Unreadable(String),
}

/// Why the API server did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It never will, as long as the same is asked.
    Rejected(String),
    /// Somebody else owns fields of the object.
    Conflict(String),
    /// The object has changed, or the server is busy, or its answer was lost: look again.
    NotNow(String),
}

/// What the sidecar says.
#[derive(Clone, Debug, Default)]
pub struct SidecarSight {
    /// Whether it lets seid run.
    pub health: Health,
    /// The task that was asked about, by its id, and what has become of it.
    pub task: (String, TaskSight),
    /// The task that it was last given, by its id, and what it said.
    pub submitted: Option<(String, Submission)>,
    /// How its API is served, if that was asked.
    pub served: Served,
}

impl SidecarSight {
    /// What has become of a task. An answer about another one says nothing.
    pub(super) fn task_of(&self, id: &str) -> &TaskSight {
        if self.task.0 == id { &self.task.1 } else { &TaskSight::Unasked }
    }

    /// What was said when a task was given in this pass.
    pub(super) fn submission_of(&self, id: &str) -> Option<&Submission> {
        self.submitted.as_ref().filter(|(of, _)| of == id).map(|(_, said)| said)
    }
}

/// Whether a sidecar lets seid run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Not asked, or the answer is still to come.
    #[default]
    Unasked,
    /// It does.
    Ready,
    /// It waits to be told.
    NotReady,
    /// It gives no answer, or one that says neither: why.
    Unreachable(String),
}

/// What has become of a sidecar's task.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TaskSight {
    /// Not asked, or the answer is still to come.
    #[default]
    Unasked,
    /// The sidecar does not know it.
    NotFound,
    /// What it says of it.
    Found(Box<TaskResult>),
    /// It gives no answer: why.
    Unreachable(String),
}

/// What a sidecar said when it was given a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submission {
    /// It took it.
    Taken,
    /// It will never take it: why.
    Rejected(String),
    /// Whether it took it is not known: why.
    Unknown(String),
}

/// How a sidecar's API is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Served {
    /// Not asked, or the answer is still to come.
    #[default]
    Unasked,
    /// So, and by TLS with a certificate of which this is the SHA-256, in hexadecimal.
    As(Scheme, Option<String>),
    /// Not as was asked: why.
    Otherwise(String),
}
