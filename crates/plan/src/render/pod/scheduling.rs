//! Where pods run: the defaults of the platform, and the settings of the spec on top.

use std::collections::BTreeMap;

use api::SeiNode;
use api::names::{label, role, scheduling};
use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, Toleration,
    TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use crate::node::{NodeKind, scheduling as own_scheduling};
use crate::platform::Platform;
use crate::render::{RenderError, meta};

/// The weight of the preference for different Kubernetes nodes: the highest.
const WEIGHT: i32 = 100;

/// The fields of a pod that decide where it runs.
pub(super) struct Placement {
    pub(super) affinity: Option<Affinity>,
    pub(super) node_selector: Option<BTreeMap<String, String>>,
    pub(super) priority_class_name: Option<String>,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
}

impl Placement {
    /// Returns the placement of a node's pods.
    pub(super) fn new(node: &SeiNode, kind: NodeKind<'_>, platform: &Platform) -> Result<Self, RenderError> {
        let own = own_scheduling(node);
        let pool = kind.nodepool(platform);
        let mut affinity = own.affinity.as_ref().map(parse_affinity).transpose()?.unwrap_or_default();
        if let Some(label) = &platform.nodepool_label {
            require_pool(&mut affinity, label, pool);
        }
        if kind.can_sign() {
            prefer_other_machines(&mut affinity, node);
        }
        let mut tolerations = vec![toleration(pool, platform)];
        tolerations.extend(own.tolerations);
        let constraints = own.topology_spread_constraints;
        Ok(Self {
            affinity: (affinity != Affinity::default()).then_some(affinity),
            node_selector: (!own.node_selector.is_empty()).then_some(own.node_selector),
            priority_class_name: own.priority_class_name.filter(|name| !name.is_empty()),
            tolerations,
            topology_spread_constraints: (!constraints.is_empty()).then_some(constraints),
        })
    }
}

/// Parses the affinity of a spec.
pub(crate) fn parse_affinity(affinity: &Value) -> Result<Affinity, RenderError> {
    serde_json::from_value(affinity.clone())
        .map_err(|error| RenderError(format!("spec.scheduling.affinity: not a valid affinity: {error}")))
}

/// Requires a node pool. The terms of a node selector are alternatives, so that each of them must require it.
fn require_pool(affinity: &mut Affinity, label: &str, pool: &str) {
    let requirement =
        NodeSelectorRequirement { key: label.into(), operator: "In".into(), values: Some(vec![pool.into()]) };
    let node_affinity = affinity.node_affinity.get_or_insert_default();
    let Some(required) = &mut node_affinity.required_during_scheduling_ignored_during_execution else {
        let term = NodeSelectorTerm { match_expressions: Some(vec![requirement]), match_fields: None };
        node_affinity
            .required_during_scheduling_ignored_during_execution
            .get_or_insert_default()
            .node_selector_terms
            .push(term);
        return;
    };
    // An empty term matches no machine, and must not match those of the pool instead.
    let is_empty = |term: &NodeSelectorTerm| {
        term.match_expressions.as_ref().is_none_or(Vec::is_empty)
            && term.match_fields.as_ref().is_none_or(Vec::is_empty)
    };
    for term in required.node_selector_terms.iter_mut().filter(|term| !is_empty(term)) {
        term.match_expressions.get_or_insert_default().insert(0, requirement.clone());
    }
}

/// Prefers machines without another validator of the same chain, in any namespace: one machine that fails must not stop two of
/// them. A requirement would keep a validator from running on a small cluster.
fn prefer_other_machines(affinity: &mut Affinity, node: &SeiNode) {
    let validators = [
        (label::CHAIN.to_owned(), node.spec.chain_id.clone()),
        (label::ROLE.to_owned(), role::VALIDATOR.to_owned()),
    ];
    let term = PodAffinityTerm {
        label_selector: Some(meta::match_labels(validators.into())),
        namespace_selector: Some(LabelSelector::default()),
        topology_key: scheduling::HOST_NAME.into(),
        ..PodAffinityTerm::default()
    };
    affinity
        .pod_anti_affinity
        .get_or_insert_default()
        .preferred_during_scheduling_ignored_during_execution
        .get_or_insert_default()
        .insert(0, WeightedPodAffinityTerm { weight: WEIGHT, pod_affinity_term: term });
}

/// Returns the toleration of a node pool's taint.
fn toleration(pool: &str, platform: &Platform) -> Toleration {
    Toleration {
        key: Some(platform.toleration_key.clone()),
        value: Some(pool.into()),
        effect: Some("NoSchedule".into()),
        ..Toleration::default()
    }
}
