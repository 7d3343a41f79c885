//! Names, labels and owner references of a node's objects.

use std::collections::BTreeMap;

use api::SeiNode;
use api::names::{label, object, role};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube_core::Resource;

use super::RenderError;
use crate::node::NodeKind;

/// The labels of an object, or of a selector.
pub(super) type Labels = BTreeMap<String, String>;

/// Returns the name of a node.
pub(super) fn name(node: &SeiNode) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the namespace of a node.
pub(super) fn namespace(node: &SeiNode) -> &str {
    node.metadata.namespace.as_deref().unwrap_or_default()
}

/// Returns the audience of the tokens that the proxy of a node accepts.
pub(super) fn sidecar_audience(node: &SeiNode) -> String {
    object::sidecar_audience(name(node), namespace(node))
}

/// Returns the kind of a node. The API server rejects a spec without one.
pub(super) fn kind(node: &SeiNode) -> Result<NodeKind<'_>, RenderError> {
    NodeKind::from_spec(&node.spec)
        .ok_or_else(|| RenderError("the spec has none of fullNode, archive, replayer and validator".into()))
}

/// Returns the metadata of an object that is garbage-collected with its node.
pub(super) fn object_meta(node: &SeiNode, name: String, labels: Labels) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: node.metadata.namespace.clone(),
        labels: Some(labels),
        owner_references: owner_reference(node).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// Returns the owner reference to a node. It blocks foreground deletion: the node is deleted after its objects, so that
/// a new node of the same name does not find objects of the old one.
pub(crate) fn owner_reference(node: &SeiNode) -> Option<OwnerReference> {
    Some(OwnerReference { block_owner_deletion: Some(true), ..node.controller_owner_ref(&())? })
}

/// Returns the labels of a node's objects and its pod: those of the spec, overridden by system labels.
pub(crate) fn labels(node: &SeiNode) -> Labels {
    let mut labels = node.spec.pod_labels.clone();
    labels.extend(selector(node));
    labels.remove(label::CHAIN);
    if !node.spec.chain_id.is_empty() {
        labels.insert(label::CHAIN.into(), node.spec.chain_id.clone());
    }
    labels.remove(label::ROLE);
    if let Some(kind) = NodeKind::from_spec(&node.spec) {
        labels.insert(label::ROLE.into(), kind.role().into());
    }
    labels
}

/// Returns the selector of a node's pods. It has a single label, since selectors are immutable.
pub(super) fn selector(node: &SeiNode) -> Labels {
    [(label::NODE.into(), name(node).into())].into()
}

/// Returns the labels of a node's bootstrap objects, which also select its bootstrap pod.
pub(super) fn bootstrap_labels(node: &SeiNode) -> Labels {
    let mut labels = selector(node);
    labels.insert(label::COMPONENT.into(), role::BOOTSTRAP_COMPONENT.into());
    labels
}

/// Returns a selector that matches labels.
pub(super) fn match_labels(labels: Labels) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}
