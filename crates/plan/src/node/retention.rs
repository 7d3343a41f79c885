//! Who deletes the claim of a data volume. A claim that is deleted with its node has the node as its owner, and garbage collection
//! deletes it. A claim that outlives its node has no owner, and a label that names the node: nodes have no finalizer, so both must be in
//! place before the node is deleted.

use api::SeiNode;
use api::event::{EventRecord, EventType};
use api::names::{label, object};
use api::sei_node::{DataDeletionPolicy, SeiNodePhase, SeiNodeStatus};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::ResourceExt;

use super::action::{Action, ClaimOwnership};
use super::check::claim;
use super::context::{NodeContext, is_controlled_by, is_terminating, kind_of, name_of};
use super::exclusive::ExclusiveObject;
use super::kind::NodeKind;
use crate::render;

/// Returns whether the claim of a node outlives the node. The record of what a validator has signed must not be lost.
#[must_use]
pub fn is_retained(node: &SeiNode) -> bool {
    let policy = node.spec.data_volume.as_ref().and_then(|volume| volume.deletion_policy);
    let can_sign = || NodeKind::from_spec(&node.spec).is_some_and(NodeKind::can_sign);
    policy.map_or_else(can_sign, |policy| policy == DataDeletionPolicy::Retain)
}

/// Returns whether a claim with the name of the node's own claim belongs to the node: the node controls it, or a node with the same name
/// has retained it.
pub(super) fn is_own(node: &SeiNode, claim: &PersistentVolumeClaim) -> bool {
    is_controlled_by(node, claim) || is_retained_by(node, claim)
}

fn is_retained_by(node: &SeiNode, claim: &PersistentVolumeClaim) -> bool {
    let has_controller = claim.owner_references().iter().any(|owner| owner.controller == Some(true));
    !has_controller && claim.labels().get(label::RETAINED_BY).map(String::as_str) == Some(name_of(node))
}

/// Returns whether a claim was retained by a previous node with the same name.
pub(super) fn is_left_behind(node: &SeiNode, claim: &PersistentVolumeClaim) -> bool {
    let times = claim.creation_timestamp().zip(node.creation_timestamp());
    is_retained_by(node, claim) && times.is_some_and(|(claim, node)| claim.0 < node.0)
}

/// Returns why a node cannot use a claim that a previous node with the same name has retained.
pub(super) fn mismatch(node: &SeiNode, claim: &PersistentVolumeClaim) -> Option<String> {
    let desired = render::labels(node);
    [(label::CHAIN, "chain"), (label::ROLE, "role")].into_iter().find_map(|(name, what)| {
        let (retained, desired) = (claim.labels().get(name)?, desired.get(name)?);
        (retained != desired).then(|| {
            format!(
                "PersistentVolumeClaim {} has the data of a previous node of {what} {retained}, and this node has {what} {desired}: \
                 create the node under another name, or delete the claim with its data",
                name_of(claim)
            )
        })
    })
}

/// Returns whether a claim has the data of a node that was set up.
pub(super) fn is_set_up(claim: &PersistentVolumeClaim) -> bool {
    claim.labels().contains_key(label::SET_UP)
}

/// Returns the action that makes a claim follow the deletion policy of its node. It touches neither the pod nor the volume. Imported
/// claims are never changed. A node that is being deleted keeps what it can: its claim may lose its owner, and never gets one.
pub(super) fn action(context: NodeContext<'_>, status: &SeiNodeStatus) -> Option<Action> {
    let NodeContext { node, observed, .. } = context;
    let live = observed.claim.as_ref().filter(|live| !is_terminating(&***live) && is_own(node, live))?;
    // A condition reports the failure, and the next reconcile retries: nothing changes within this one.
    let is_refused = observed.write_failures.contains_key(kind_of::<PersistentVolumeClaim>());
    if claim::imported(node).is_some() || is_refused {
        return None;
    }
    let is_retained = is_retained(node);
    // Another node may have imported the claim of a previous node: it becomes owned only after it was validated.
    let is_validated =
        !is_left_behind(node, live) || ExclusiveObject::Claim(name_of(&**live).to_owned()).is_held_in(status);
    if !is_retained && (is_terminating(node) || !is_validated) {
        return None;
    }
    let uid = node.metadata.uid.as_deref().unwrap_or_default();
    let mut owners: Vec<OwnerReference> = live.owner_references().to_vec();
    owners.retain(|owner| owner.uid != uid);
    if !is_retained {
        owners.extend(render::owner_reference(node));
    }
    let was_set_up = live.labels().get(label::SET_UP).cloned();
    let is_set_up = || (status.phase == Some(SeiNodePhase::Running)).then(|| SET_UP.to_owned());
    let labels = [
        (label::RETAINED_BY, is_retained.then(|| name_of(node).to_owned())),
        (label::SET_UP, was_set_up.or_else(is_set_up).filter(|_| is_retained)),
    ];
    let has_labels = labels.iter().all(|(name, value)| live.labels().get(*name) == value.as_ref());
    if has_labels && has_owner(live, uid) != is_retained {
        return None;
    }
    Some(Action::SetClaimOwnership(Box::new(ClaimOwnership {
        claim: (**live).clone(),
        owner_references: owners,
        labels: labels.into(),
    })))
}

/// The value of the label of a claim whose node was set up.
const SET_UP: &str = "true";

fn has_owner(claim: &PersistentVolumeClaim, uid: &str) -> bool {
    claim.owner_references().iter().any(|owner| owner.uid == uid)
}

/// Returns the event about the claim that a deleted node leaves behind.
#[must_use]
pub fn deletion_event(node: &SeiNode, claim: Option<&PersistentVolumeClaim>) -> Option<EventRecord> {
    let name = object::data_claim(name_of(node));
    let claim = claim.filter(|claim| name_of(*claim) == name && !is_terminating(*claim))?;
    if self::claim::imported(node).is_some() || !is_retained_by(node, claim) {
        return None;
    }
    let (node, namespace) = (name_of(node), claim.namespace().unwrap_or_default());
    Some(EventRecord {
        event_type: EventType::Normal,
        reason: "DataVolumeRetained".into(),
        action: "Delete",
        message: format!(
            "PersistentVolumeClaim {name} is retained with the data of the node: a new SeiNode {node} uses it; to delete the data, run \
             `kubectl delete pvc {name} --namespace {namespace}`"
        ),
    })
}
