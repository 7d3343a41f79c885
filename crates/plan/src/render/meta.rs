//! What all objects of a node have in common: names, labels, and the node as their owner.

use std::collections::BTreeMap;

use api::SeiNode;
use api::names::{label, role};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube_core::Resource;

use super::Refusal;
use crate::node::Kind;

/// Labels of an object, or those that select it.
pub(super) type Labels = BTreeMap<String, String>;

/// The node's name.
pub(super) fn name(node: &SeiNode) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// The node's namespace.
pub(super) fn namespace(node: &SeiNode) -> &str {
    node.metadata.namespace.as_deref().unwrap_or_default()
}

/// The node's kind. The API server lets no spec without one through.
pub(super) fn kind(node: &SeiNode) -> Result<Kind<'_>, Refusal> {
    Kind::of(&node.spec)
        .ok_or_else(|| Refusal("the spec has none of fullNode, archive, replayer and validator".into()))
}

/// The metadata of an object that ends with its node.
pub(super) fn of(node: &SeiNode, name: String, labels: Labels) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: node.metadata.namespace.clone(),
        labels: Some(labels),
        owner_references: owner(node).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// The node as the one that an object belongs to. Whoever deletes the node in the foreground sees it go last: a new node of
/// the same name does not find what the old one left.
fn owner(node: &SeiNode) -> Option<OwnerReference> {
    Some(OwnerReference { block_owner_deletion: Some(true), ..node.controller_owner_ref(&())? })
}

/// Labels of a node's objects and its pod: those of the spec, then ours.
pub(super) fn labels(node: &SeiNode) -> Labels {
    let mut labels = node.spec.pod_labels.clone();
    labels.extend(selector(node));
    labels.remove(label::CHAIN);
    if !node.spec.chain_id.is_empty() {
        labels.insert(label::CHAIN.into(), node.spec.chain_id.clone());
    }
    labels.remove(label::ROLE);
    if let Some(kind) = Kind::of(&node.spec) {
        labels.insert(label::ROLE.into(), kind.role().into());
    }
    labels
}

/// What selects a node's pods. One label only: selectors cannot change.
pub(super) fn selector(node: &SeiNode) -> Labels {
    [(label::NODE.into(), name(node).into())].into()
}

/// Labels of a node's bootstrap objects, and what selects its bootstrap pod.
pub(super) fn bootstrap_labels(node: &SeiNode) -> Labels {
    let mut labels = selector(node);
    labels.insert(label::COMPONENT.into(), role::BOOTSTRAP_COMPONENT.into());
    labels
}

/// A selector of everything that has these labels.
pub(super) fn matching(labels: Labels) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}
