//! How nodes are brought to a changed template.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::rule::validations;
use crate::schema;

/// How nodes are brought to a changed template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::UPDATE_STRATEGY)))]
pub struct UpdateStrategy {
    /// The way it is done.
    #[serde(default, rename = "type")]
    pub strategy_type: UpdateStrategyType,

    /// How many nodes may be away at once, as a number or as a percentage of the replicas. Absent: all of them, because a chain
    /// that halts for an upgrade needs every node to come back with the new image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,

    /// What `HardFork` needs to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_fork: Option<HardFork>,
}

/// Ways to bring nodes to a changed template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum UpdateStrategyType {
    /// Each node is updated where it is.
    #[default]
    InPlace,
    /// New nodes take over from the old ones.
    BlueGreen,
    /// New nodes take over from the old ones at a height.
    HardFork,
}

/// A change at a height.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HardFork {
    /// The height at which the old nodes stop.
    #[schemars(range(min = 1))]
    pub halt_height: i64,
}
