//! Watch handlers of the node controller: they map a change of an object to the nodes that have to be reconciled.

use std::sync::Arc;

use api::SeiNode;
use api::cert_manager::Certificate;
use api::names::label;
use api::sei_node::PlanPhase;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use plan::node::ObservedPod;
use runtime::Key;
use runtime::own_writes::OwnWrites;
use runtime::queue::{Priority, Queue};
use runtime::watch::Change;

use super::deletions::Deletions;
use super::reference_index::ReferenceIndex;
use crate::secrets::SecretReader;

/// The work queue of nodes.
pub(super) type NodeQueue = Arc<Queue<Key>>;

/// Selects the objects that carry the node label.
pub(super) fn with_node_label() -> watcher::Config {
    watcher::Config::default().labels(label::NODE)
}

/// True when a change requires a reconcile. The operator's own writes are known from their responses, and changes of pruned
/// fields are of no interest.
fn is_relevant<K>(change: &Change<K>, own_writes: &OwnWrites) -> bool
where
    K: Resource<DynamicType = ()> + Clone + PartialEq,
{
    match change {
        Change::Listed(_) | Change::Deleted(_) => true,
        Change::Applied(now, _) if own_writes.is_echo(&**now) => false,
        Change::Applied(_, None) => true,
        Change::Applied(now, Some(before)) => {
            let mut before = (**before).clone();
            before.meta_mut().resource_version.clone_from(&now.meta().resource_version);
            before != **now
        }
    }
}

/// Enqueues a node when it changes. Nodes of the initial list come after those that change.
pub(super) fn on_node(
    queue: &NodeQueue,
    own_writes: &Arc<OwnWrites>,
    references: &Arc<ReferenceIndex>,
    deletions: &Arc<Deletions>,
) -> impl Fn(&Change<SeiNode>) + Send + Sync + use<> {
    let (queue, own_writes, references) = (queue.clone(), own_writes.clone(), references.clone());
    let deletions = deletions.clone();
    move |change| {
        references.update(change);
        deletions.update(change);
        let priority = if matches!(change, Change::Listed(_)) { Priority::Low } else { Priority::High };
        let node = change.object();
        if is_relevant(change, &own_writes) {
            queue.add(Key::from_object(&**node), priority);
        }
        // A created, deleted or relabeled node may be a peer of others.
        let affects_peers = match change {
            Change::Listed(_) => false,
            Change::Applied(now, before) => {
                before.as_ref().is_none_or(|before| before.labels() != now.labels())
            }
            Change::Deleted(_) => true,
        };
        if affects_peers {
            enqueue_all(&queue, references.nodes_selecting_peers(), Priority::Low);
        }
        if matches!(change, Change::Deleted(_)) {
            // Drops the record of a write that the deleted node includes. Otherwise the written node would count as newer than the cache,
            // and the operator would not notice for seconds that the node is gone.
            own_writes.freshness(&Key::from_object(&**node), Some(&**node));
            enqueue_all(&queue, references.nodes_sharing_with(node), Priority::High);
        }
    }
}

/// Enqueues the node of a pod. A pod that is gone no longer uses its Secrets and claims: the nodes that wait for them are enqueued, too.
pub(super) fn on_pod(
    queue: &NodeQueue,
    own_writes: &Arc<OwnWrites>,
    references: &Arc<ReferenceIndex>,
) -> impl Fn(&Change<ObservedPod>) + Send + Sync + use<> {
    let on_owned = on_owned::<ObservedPod>(queue, own_writes);
    let (queue, references) = (queue.clone(), references.clone());
    move |change| {
        on_owned(change);
        let Change::Deleted(pod) = change else { return };
        let named =
            |name: &str| Key { namespace: pod.namespace().unwrap_or_default(), name: name.to_owned() };
        for volume in pod.volumes() {
            let by_secret = volume.secret_name().map(|name| references.nodes_using_secret(&named(name)));
            let by_claim = volume.claim_name().map(|name| references.nodes_importing_claim(&named(name)));
            let waiting = by_secret.into_iter().chain(by_claim).flatten();
            enqueue_all(&queue, waiting.collect(), Priority::High);
        }
    }
}

/// Enqueues the node that an object names in its label.
pub(super) fn on_owned<K>(
    queue: &NodeQueue,
    own_writes: &Arc<OwnWrites>,
) -> impl Fn(&Change<K>) + Send + Sync + use<K>
where
    K: Resource<DynamicType = ()> + Clone + PartialEq,
{
    let (queue, own_writes) = (queue.clone(), own_writes.clone());
    move |change| {
        let object = change.object();
        if let Some(node) = object.labels().get(label::NODE)
            && !matches!(change, Change::Listed(_))
            && is_relevant(change, &own_writes)
        {
            let key = Key { namespace: object.namespace().unwrap_or_default(), name: node.clone() };
            queue.add(key, Priority::High);
        }
    }
}

/// Enqueues the owner of a claim and the nodes that import it.
pub(super) fn on_claim(
    queue: &NodeQueue,
    own_writes: &Arc<OwnWrites>,
    references: &Arc<ReferenceIndex>,
) -> impl Fn(&Change<PersistentVolumeClaim>) + Send + Sync + use<> {
    let on_owned = on_owned::<PersistentVolumeClaim>(queue, own_writes);
    let (queue, references) = (queue.clone(), references.clone());
    move |change| {
        on_owned(change);
        if !matches!(change, Change::Listed(_)) {
            let claim = Key::from_object(&**change.object());
            enqueue_all(&queue, references.nodes_importing_claim(&claim), Priority::High);
        }
    }
}

/// Enqueues the node of a Certificate, and marks the copy of its Secret as outdated. cert-manager writes the status of a Certificate after
/// the Secret, so that the next read returns what was issued.
pub(super) fn on_certificate(
    queue: &NodeQueue,
    own_writes: &Arc<OwnWrites>,
    secrets: &SecretReader,
) -> impl Fn(&Change<Certificate>) + Send + Sync + use<> {
    let (on_owned, secrets) = (on_owned::<Certificate>(queue, own_writes), secrets.clone());
    move |change| {
        let certificate = change.object();
        let name = certificate.spec.secret_name.clone();
        secrets.expire(&Key { namespace: certificate.namespace().unwrap_or_default(), name });
        on_owned(change);
    }
}

fn enqueue_all(queue: &NodeQueue, nodes: Vec<Key>, priority: Priority) {
    for node in nodes {
        queue.add(node, priority);
    }
}

/// Drops annotations, which other controllers write and the operator does not read.
pub(super) fn prune_claim(claim: &mut PersistentVolumeClaim) {
    claim.metadata.annotations = None;
}

/// Drops the task parameters of a complete plan: most of the size of a node, and not read any more.
pub(super) fn prune_node(node: &mut SeiNode) {
    let plan = node.status.as_mut().and_then(|status| status.plan.as_mut());
    if let Some(plan) = plan.filter(|plan| plan.phase == PlanPhase::Complete) {
        plan.tasks.iter_mut().for_each(|task| task.params = None);
    }
}
