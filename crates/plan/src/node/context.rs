//! The inputs of every decision about a node, and the lookups that all of them share.

use std::sync::Arc;

use api::SeiNode;
use api::drift::Drift;
use api::names::{label, object, role, volume};
use api::sei_node::{Scheme, SeiNodeStatus};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube_core::{Resource, ResourceExt};

use super::action::Transport;
use super::isolation::with_running_isolation;
use super::kind::NodeKind;
use super::observed::{Observed, ObservedPod, ObservedVolume};
use crate::platform::Platform;
use crate::render::{self, RenderError};

/// The label that names the StatefulSet revision a pod was created from.
const REVISION: &str = "controller-revision-hash";

/// The inputs of every decision about a node, except the status and the time.
#[derive(Clone, Copy)]
pub(super) struct NodeContext<'a> {
    pub(super) node: &'a SeiNode,
    pub(super) kind: NodeKind<'a>,
    pub(super) platform: &'a Platform,
    pub(super) observed: &'a Observed,
}

impl<'a> NodeContext<'a> {
    /// Returns the context of a node, or nothing if its spec has no kind.
    pub(super) fn new(node: &'a SeiNode, platform: &'a Platform, observed: &'a Observed) -> Option<Self> {
        Some(Self { node, kind: NodeKind::from_spec(&node.spec)?, platform, observed })
    }

    pub(super) fn name(self) -> &'a str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(self) -> &'a str {
        self.node.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the node's own pod.
    pub(super) fn pod(self) -> Option<&'a Arc<ObservedPod>> {
        node_pod(self.node, self.observed)
    }

    /// Returns the pod of the bootstrap Job.
    pub(super) fn bootstrap_pod(self) -> Option<&'a Arc<ObservedPod>> {
        let job = self.observed.job.as_deref()?.metadata.uid.as_deref()?;
        self.observed.pods.iter().find(|pod| {
            let component = pod.labels().get(label::COMPONENT).map(String::as_str);
            component == Some(role::BOOTSTRAP_COMPONENT) && has_owner(&***pod, job)
        })
    }

    /// Returns whether the pod was created from a template other than the desired one, although the StatefulSet has the
    /// desired one: the StatefulSet was modified and restored, and the pod was created in between.
    pub(super) fn has_pod_of_modified_template(self, status: &SeiNodeStatus) -> bool {
        let find = || {
            let set = self.observed.stateful_set.as_deref()?;
            let pod = self.pod().filter(|pod| !is_terminating(&***pod))?;
            let newest = set.newest_revision()?;
            revision_of(pod).filter(|revision| *revision != newest)?;
            let node = &with_running_isolation(self.node, self.platform, status);
            let render = || render::stateful_set(node, self.platform);
            let cache = &self.observed.render_cache;
            let hash = cache.desired_hash(node, kind_of::<StatefulSet>(), render).ok()?;
            Some(cache.compare(node, set, &hash, render) == Drift::InSync)
        };
        find().unwrap_or_default()
    }

    /// Returns the hash of the desired StatefulSet.
    pub(super) fn desired_template_hash(self) -> Result<String, RenderError> {
        let render = || render::stateful_set(self.node, self.platform);
        self.observed.render_cache.desired_hash(self.node, kind_of::<StatefulSet>(), render)
    }

    /// Returns how to reach the sidecar of the node's own pod, with the transport that was last observed.
    pub(super) fn observed_transport(self, status: &SeiNodeStatus) -> Option<Transport> {
        match &status.current_sidecar_tls {
            Some(tls) => self.transport(tls.scheme, tls.secret_name.as_deref()),
            // A node that was never observed with TLS serves without it.
            None => self.transport(Scheme::Http, None),
        }
    }

    /// Returns how to reach the sidecar of the node's own pod, if it serves with this scheme and certificate.
    pub(super) fn transport(self, scheme: Scheme, secret: Option<&str>) -> Option<Transport> {
        let pod = self.pod().filter(|pod| !is_terminating(&***pod))?;
        Some(self.transport_to(pod, scheme, secret))
    }

    /// Returns how to reach the sidecar of the bootstrap pod. It serves with the certificate that it mounts: the spec may have changed
    /// since the pod was created, and a pod of a previous version has none.
    pub(super) fn bootstrap_transport(self) -> Option<Transport> {
        let pod = self.bootstrap_pod().filter(|pod| !is_terminating(&***pod))?;
        let certificate = pod.volumes().iter().find(|one| one.name() == volume::SIDECAR_TLS);
        let secret = certificate.and_then(ObservedVolume::secret_name);
        let scheme = if secret.is_some() { Scheme::Https } else { Scheme::Http };
        Some(self.transport_to(pod, scheme, secret))
    }

    fn transport_to(self, pod: &ObservedPod, scheme: Scheme, secret: Option<&str>) -> Transport {
        Transport {
            scheme,
            host: object::pod_host(self.name(), self.namespace()),
            address: pod.status.as_ref().and_then(|status| status.pod_ip.clone()),
            secret: secret.filter(|_| scheme == Scheme::Https).map(str::to_owned),
            // As the pod names it: the client refuses to send a token with the audience of another node.
            audience: pod.sidecar_audience().map(str::to_owned),
        }
    }
}

/// Returns the node's own pod: the one with its name that its StatefulSet owns.
pub(super) fn node_pod<'a>(node: &SeiNode, observed: &'a Observed) -> Option<&'a Arc<ObservedPod>> {
    let name = object::pod(node.metadata.name.as_deref().unwrap_or_default());
    let set = observed.stateful_set.as_deref()?.metadata.uid.as_deref()?;
    observed.pods.iter().find(|pod| pod.metadata.name.as_deref() == Some(&name) && has_owner(&***pod, set))
}

/// Returns the name of a Kubernetes kind.
pub(super) fn kind_of<K: Resource<DynamicType = ()>>() -> &'static str {
    // Always a static string for kinds known at compile time, although the type does not say so.
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "object",
    }
}

/// Returns the name of an object.
pub(super) fn name_of<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

/// Returns whether the node is the controller owner of an object.
pub(super) fn is_controlled_by<K: Resource>(node: &SeiNode, object: &K) -> bool {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    let uid = node.metadata.uid.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

/// Returns whether an object is being deleted.
pub(super) fn is_terminating<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Returns the StatefulSet revision that a pod was created from.
pub(super) fn revision_of(pod: &ObservedPod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(REVISION).map(String::as_str)
}

fn has_owner<K: Resource>(object: &K, uid: &str) -> bool {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.uid == uid)
}
