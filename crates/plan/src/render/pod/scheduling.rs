//! On which machines pods run.

use api::names::scheduling;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Toleration,
};

use crate::platform::Platform;

/// Only machines of a pool.
pub(super) fn affinity(pool: &str) -> Affinity {
    let in_the_pool = NodeSelectorRequirement {
        key: scheduling::NODE_POOL.into(),
        operator: "In".into(),
        values: Some(vec![pool.into()]),
    };
    let term = NodeSelectorTerm { match_expressions: Some(vec![in_the_pool]), match_fields: None };
    let required = NodeSelector { node_selector_terms: vec![term] };
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

/// Machines of a pool keep other pods away.
pub(super) fn toleration(pool: &str, platform: &Platform) -> Toleration {
    Toleration {
        key: Some(platform.toleration_key.clone()),
        value: Some(pool.into()),
        effect: Some("NoSchedule".into()),
        ..Toleration::default()
    }
}
