//! The watches of the node controller, and whose node an event is about.

use std::sync::Arc;

use api::SeiNode;
use api::names::label;
use api::sei_node::PlanPhase;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use runtime::Key;
use runtime::own_writes::OwnWrites;
use runtime::queue::{Priority, Queue};
use runtime::watch::Change;

use super::ties::Ties;
use crate::secrets::SecretMeta;

/// Keys of nodes that wait for their turn.
pub(super) type Nodes = Arc<Queue<Key>>;

/// Objects that carry the label of a node.
pub(super) fn labelled() -> watcher::Config {
    watcher::Config::default().labels(label::NODE)
}

/// Whether a change tells anything that was not known. What we wrote ourselves was known when it was answered; and much of
/// what others write is about what nobody here reads, and was taken out.
fn is_news<K>(change: &Change<K>, own: &OwnWrites) -> bool
where
    K: Resource<DynamicType = ()> + Clone + PartialEq,
{
    match change {
        Change::Listed(_) | Change::Gone(_) => true,
        Change::Changed(now, _) if own.is_echo(&**now) => false,
        Change::Changed(_, None) => true,
        Change::Changed(now, Some(before)) => {
            let mut before = (**before).clone();
            before.meta_mut().resource_version.clone_from(&now.meta().resource_version);
            before != **now
        }
    }
}

/// Wakes a node for news of itself. Those that were there already come after those that change.
pub(super) fn of_node(
    queue: &Nodes,
    own: &Arc<OwnWrites>,
    ties: &Arc<Ties>,
) -> impl Fn(&Change<SeiNode>) + Send + Sync + use<> {
    let (queue, own, ties) = (queue.clone(), own.clone(), ties.clone());
    move |change| {
        ties.changed(change);
        let priority = if matches!(change, Change::Listed(_)) { Priority::Low } else { Priority::High };
        let node = change.object();
        if is_news(change, &own) {
            queue.add(Key::of(&**node), priority);
        }
        // A node that comes, goes or is labelled otherwise may be somebody's peer.
        let matters = match change {
            Change::Listed(_) => false,
            Change::Changed(now, before) => {
                before.as_ref().is_none_or(|before| before.labels() != now.labels())
            }
            Change::Gone(_) => true,
        };
        if matters {
            for other in ties.who_look_for_peers() {
                queue.add(other, Priority::Low);
            }
        }
    }
}

/// Wakes the node that an object belongs to, by its label.
pub(super) fn of_owner<K>(queue: &Nodes, own: &Arc<OwnWrites>) -> impl Fn(&Change<K>) + Send + Sync + use<K>
where
    K: Resource<DynamicType = ()> + Clone + PartialEq,
{
    let (queue, own) = (queue.clone(), own.clone());
    move |change| {
        let object = change.object();
        if let Some(node) = object.labels().get(label::NODE)
            && !matches!(change, Change::Listed(_))
            && is_news(change, &own)
        {
            let key = Key { namespace: object.namespace().unwrap_or_default(), name: node.clone() };
            queue.add(key, Priority::High);
        }
    }
}

/// Wakes the nodes that a claim matters to: its owner, and whoever imports it.
pub(super) fn of_claim(
    queue: &Nodes,
    own: &Arc<OwnWrites>,
    ties: &Arc<Ties>,
) -> impl Fn(&Change<PersistentVolumeClaim>) + Send + Sync + use<> {
    let owner = of_owner::<PersistentVolumeClaim>(queue, own);
    let (queue, ties) = (queue.clone(), ties.clone());
    move |change| {
        owner(change);
        if matches!(change, Change::Listed(_)) {
            return;
        }
        for node in ties.of_claim(&Key::of(&**change.object())) {
            queue.add(node, Priority::High);
        }
    }
}

/// Wakes the nodes that were told about a Secret.
pub(super) fn of_secret(
    queue: &Nodes,
    ties: &Arc<Ties>,
) -> impl Fn(&Change<SecretMeta>) + Send + Sync + use<> {
    let (queue, ties) = (queue.clone(), ties.clone());
    move |change| {
        if matches!(change, Change::Listed(_)) {
            return;
        }
        for node in ties.of_secret(&Key::of(&**change.object())) {
            queue.add(node, Priority::High);
        }
    }
}

/// What is written by others about an object and read by nobody here.
pub(super) fn keep_of_claim(claim: &mut PersistentVolumeClaim) {
    claim.metadata.annotations = None;
}

/// What the tasks of a plan that has ended well were given is read by nobody, and most of a node's size.
pub(super) fn keep_of_node(node: &mut SeiNode) {
    let plan = node.status.as_mut().and_then(|status| status.plan.as_mut());
    if let Some(plan) = plan.filter(|plan| plan.phase == PlanPhase::Complete) {
        plan.tasks.iter_mut().for_each(|task| task.params = None);
    }
}

/// What is read of a Secret's metadata: that it is there, and which version.
pub(super) fn keep_of_secret(secret: &mut SecretMeta) {
    let meta = &mut secret.metadata;
    (meta.annotations, meta.labels, meta.owner_references) = (None, None, None);
}
