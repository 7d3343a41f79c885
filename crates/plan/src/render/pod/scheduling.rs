//! Node affinity and tolerations of pods.

use api::names::scheduling;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Toleration,
};

use crate::platform::Platform;

/// Returns the affinity to a node pool.
pub(super) fn affinity(pool: &str) -> Affinity {
    let requirement = NodeSelectorRequirement {
        key: scheduling::NODE_POOL.into(),
        operator: "In".into(),
        values: Some(vec![pool.into()]),
    };
    let term = NodeSelectorTerm { match_expressions: Some(vec![requirement]), match_fields: None };
    let required = NodeSelector { node_selector_terms: vec![term] };
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

/// Returns the toleration of a node pool's taint.
pub(super) fn toleration(pool: &str, platform: &Platform) -> Toleration {
    Toleration {
        key: Some(platform.toleration_key.clone()),
        value: Some(pool.into()),
        effect: Some("NoSchedule".into()),
        ..Toleration::default()
    }
}
