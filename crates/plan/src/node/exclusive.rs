//! Objects that only one node may use: the Secret of a signing key, since a key that signs in two places is slashed, and the claim
//! of a data volume, since two nodes that write to one volume corrupt it.
//!
//! The holder is the node that runs with the object, or has validated it. Without a holder, the node that was created first gets the
//! object. The rule only reads what the API server stores, so every replica and every restarted operator decides the same. What a node
//! leaves behind counts as well: the pod of a deleted node signs until it is gone, and its StatefulSet may create another one.

use std::sync::Arc;

use api::SeiNode;
use api::names::{label, object};
use api::sei_node::{SeiNodePhase, SeiNodeStatus, TaskStatus};
use kube_core::ResourceExt;

use super::check::claim;
use super::context::{is_controlled_by, name_of};
use super::kind::NodeKind;
use super::observed::{ObservedPod, ObservedStatefulSet, ObservedVolume};
use super::task::Step;

/// An object that only one node of a namespace may use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExclusiveObject {
    /// The Secret of a signing key.
    SigningKey(String),
    /// The claim of a data volume.
    Claim(String),
}

/// What is known about the other users of an object in its namespace.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// The nodes that name the object.
    pub nodes: Vec<Arc<SeiNode>>,
    /// The StatefulSets of the namespace.
    pub stateful_sets: Vec<Arc<ObservedStatefulSet>>,
    /// The pods of the namespace.
    pub pods: Vec<Arc<ObservedPod>>,
    /// The node that this process has granted the object to. What it does with the object may not be observed yet.
    pub reserved_by: Option<String>,
}

/// Another node that uses an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExclusiveUser {
    /// The name of the node. It may be deleted already.
    pub node: String,
    /// How it is known that it uses the object.
    pub evidence: String,
}

/// The observed use of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExclusiveUse {
    /// The object.
    pub object: ExclusiveObject,
    /// The other node that uses it, if any.
    pub user: Option<ExclusiveUser>,
}

/// Returns the other node that keeps a node from using an object.
#[must_use]
pub fn exclusive_user(
    object: &ExclusiveObject,
    node: &SeiNode,
    candidates: &Candidates,
) -> Option<ExclusiveUser> {
    let others = || candidates.nodes.iter().filter(|other| name_of(&***other) != name_of(node));
    let by_pod = first(candidates.pods.iter().filter_map(|pod| {
        let user = owner_label(&**pod, node).filter(|_| object.is_mounted(pod.volumes()))?;
        Some((user, format!("its pod {} mounts it", name_of(&**pod))))
    }));
    let by_set = || {
        first(candidates.stateful_sets.iter().filter_map(|set| {
            let user = owner_label(&**set, node).filter(|_| object.is_mounted(&set.volumes()))?;
            Some((user, "its StatefulSet mounts it".into()))
        }))
    };
    let by_status = || {
        let holders = others().filter(|other| {
            object.is_named_by(other) && other.status.as_ref().is_some_and(|status| object.is_held_in(status))
        });
        first(holders.map(|other| (name_of(&**other), "it was set up with it".into())))
    };
    let by_reservation = || {
        let other = candidates.reserved_by.as_deref().filter(|other| *other != name_of(node))?;
        Some(ExclusiveUser { node: other.into(), evidence: "it is being set up with it".into() })
    };
    let by_age = || {
        // Otherwise an older node that is refused because of the reservation would refuse this one as well.
        let is_reserved = candidates.reserved_by.as_deref() == Some(name_of(node));
        if is_reserved
            || node.status.as_ref().is_some_and(|status| object.is_held_in(status))
            || has_mounting_set(object, node, candidates)
        {
            return None;
        }
        let age = |one: &SeiNode| (one.creation_timestamp().map(|time| time.0), one.name_any());
        let older = others().filter(|other| object.is_named_by(other) && age(other) < age(node));
        let oldest = older.min_by_key(|other| age(other))?;
        Some(ExclusiveUser { node: oldest.name_any(), evidence: "it was created first".into() })
    };
    by_pod.or_else(by_set).or_else(by_status).or_else(by_reservation).or_else(by_age)
}

impl ExclusiveObject {
    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::SigningKey(name) | Self::Claim(name) => name,
        }
    }

    /// Returns whether the spec of a node names the object.
    fn is_named_by(&self, node: &SeiNode) -> bool {
        match self {
            Self::SigningKey(name) => {
                let keys = NodeKind::from_spec(&node.spec).map(NodeKind::key_secrets).unwrap_or_default();
                keys.signing_key.as_ref() == Some(name)
            }
            Self::Claim(name) => match claim::imported(node) {
                Some(imported) => imported == name,
                None => object::data_claim(name_of(node)) == *name,
            },
        }
    }

    /// Returns whether the status of a node that names the object says that it was set up with it. The spec of a node cannot be changed
    /// to another object.
    pub(super) fn is_held_in(&self, status: &SeiNodeStatus) -> bool {
        let step = match self {
            Self::SigningKey(_) => Step::ValidateSigningKey,
            Self::Claim(_) => Step::EnsureDataClaim,
        };
        let tasks = status.plan.iter().flat_map(|plan| &plan.tasks);
        let is_validated = tasks
            .filter(|task| task.task_type == step.name())
            .any(|task| task.status == TaskStatus::Complete);
        is_validated
            || match self {
                Self::SigningKey(name) => {
                    status.current_keys.as_ref().and_then(|keys| keys.signing_key.as_ref()) == Some(name)
                }
                Self::Claim(_) => status.phase == Some(SeiNodePhase::Running),
            }
    }

    /// Returns whether one of the volumes is the object.
    fn is_mounted(&self, volumes: &[ObservedVolume]) -> bool {
        volumes.iter().any(|volume| match self {
            Self::SigningKey(name) => volume.secret_name() == Some(name),
            Self::Claim(name) => volume.claim_name() == Some(name),
        })
    }
}

/// Returns whether the StatefulSet of a node mounts an object.
fn has_mounting_set(object: &ExclusiveObject, node: &SeiNode, candidates: &Candidates) -> bool {
    let mut own = candidates.stateful_sets.iter().filter(|set| is_controlled_by(node, &***set));
    own.any(|set| object.is_mounted(&set.volumes()))
}

/// Returns the node that an object belongs to, unless it is this one.
fn owner_label<'a, K: kube_core::Resource>(object: &'a K, node: &SeiNode) -> Option<&'a str> {
    let owner = object.labels().get(label::NODE)?;
    (owner != name_of(node)).then_some(owner.as_str())
}

/// Returns the first user by name, so that messages do not depend on the order of a cache.
fn first<'a>(users: impl Iterator<Item = (&'a str, String)>) -> Option<ExclusiveUser> {
    let (node, evidence) = users.min()?;
    Some(ExclusiveUser { node: node.to_owned(), evidence })
}
