//! The nodes of a fleet, as the template describes them.

use api::fleet::{DeletionPolicy, NodeTemplate, TemplateMetadata};
use api::names::{annotation, label, object};
use api::sei_node::{GenesisCeremony, SeiNodeSpec};
use api::{SeiNode, SeiNodeDeployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube_core::Resource;

/// How an object with the name of a fleet's node relates to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// It belongs to the fleet.
    Owned,
    /// Nothing controls it, and it carries the label of the fleet: it may be adopted.
    Adoptable,
    /// It belongs to something else.
    Foreign,
}

/// Returns how a node relates to a fleet.
#[must_use]
pub fn ownership(fleet: &SeiNodeDeployment, node: &SeiNode) -> Ownership {
    let owners = node.metadata.owner_references.iter().flatten();
    match owners.into_iter().find(|owner| owner.controller == Some(true)) {
        Some(owner) if Some(&owner.uid) == fleet.metadata.uid.as_ref() => Ownership::Owned,
        Some(_) => Ownership::Foreign,
        None if annotation_of(node, annotation::FLEET_UID) == fleet.metadata.uid.as_deref() => {
            Ownership::Owned
        }
        None if node_label(node, label::FLEET) == fleet.metadata.name.as_deref() => Ownership::Adoptable,
        None => Ownership::Foreign,
    }
}

/// Returns the name of the node with an ordinal.
#[must_use]
pub fn node_name(fleet: &SeiNodeDeployment, ordinal: i32) -> String {
    object::fleet_node(fleet.metadata.name.as_deref().unwrap_or_default(), ordinal)
}

/// Returns the ordinal of a node, from its label.
pub(super) fn ordinal(node: &SeiNode) -> Option<i32> {
    node_label(node, label::FLEET_ORDINAL)?.parse().ok()
}

/// Returns the revision of a node.
pub(super) fn revision(node: &SeiNode) -> Option<&str> {
    node_label(node, label::REVISION)
}

/// Returns the owner references of a node. A node that outlives its fleet has none: garbage collection does not wait for an operator.
fn owner_references(fleet: &SeiNodeDeployment) -> Option<Vec<OwnerReference>> {
    match fleet.spec.deletion_policy {
        DeletionPolicy::Delete => fleet.controller_owner_ref(&()).map(|owner| vec![owner]),
        DeletionPolicy::Retain => None,
    }
}

/// Returns whether an annotation has the value `true`.
pub(super) fn is_annotated(metadata: &ObjectMeta, name: &str) -> bool {
    metadata.annotations.as_ref().and_then(|all| all.get(name)).is_some_and(|value| value == "true")
}

/// Renders the node with an ordinal. `applied_at` is the time at which it gets the revision.
#[must_use]
pub fn render(
    fleet: &SeiNodeDeployment,
    template: &NodeTemplate,
    revision: &str,
    ordinal: i32,
    applied_at: &Time,
) -> SeiNode {
    let fleet_name = fleet.metadata.name.as_deref().unwrap_or_default();
    let TemplateMetadata { labels: template_labels, mut annotations } =
        template.metadata.clone().unwrap_or_default();
    let mut labels = template_labels.clone();
    labels.insert(label::FLEET.into(), fleet_name.into());
    labels.insert(label::FLEET_ORDINAL.into(), ordinal.to_string());
    labels.insert(label::REVISION.into(), revision.into());
    annotations.insert(annotation::REVISION_APPLIED_AT.into(), applied_at.0.to_string());
    annotations.insert(annotation::FLEET_UID.into(), fleet.metadata.uid.clone().unwrap_or_default());
    let metadata = ObjectMeta {
        name: Some(object::fleet_node(fleet_name, ordinal)),
        namespace: fleet.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: owner_references(fleet),
        ..ObjectMeta::default()
    };
    let mut spec = template.spec.clone();
    spec.paused = fleet.spec.paused || template.spec.paused;
    let mut pod_labels = template_labels;
    pod_labels.append(&mut spec.pod_labels);
    // The revision is not a label of the pod: it would replace the pod for an edit that changes nothing else of it.
    pod_labels.insert(label::FLEET.into(), fleet_name.into());
    spec.pod_labels = pod_labels;
    join_ceremony(fleet, &mut spec, ordinal);
    SeiNode { metadata, spec, status: None }
}

/// Adds the part of a validator in the genesis ceremony of its fleet.
fn join_ceremony(fleet: &SeiNodeDeployment, spec: &mut SeiNodeSpec, ordinal: i32) {
    let (Some(genesis), Some(validator)) = (&fleet.spec.genesis, &mut spec.validator) else { return };
    validator.genesis_ceremony = Some(GenesisCeremony {
        chain_id: genesis.chain_id.clone(),
        staking_amount: genesis.staking_amount.clone(),
        account_balance: genesis.account_balance.clone(),
        genesis_params: (!genesis.overrides.is_empty())
            .then(|| serde_json::to_string(&genesis.overrides).unwrap_or_default()),
        index: ordinal,
    });
}

fn annotation_of<'a>(node: &'a SeiNode, name: &str) -> Option<&'a str> {
    node.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn node_label<'a>(node: &'a SeiNode, name: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(name).map(String::as_str)
}
