//! Update strategies.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::rule::validations;
use crate::schema;

/// How nodes are updated when the template changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::UPDATE_STRATEGY)))]
pub struct UpdateStrategy {
    /// Type of the update strategy: InPlace. BlueGreen is refused, and HardFork is not supported yet.
    #[serde(default, rename = "type")]
    pub strategy_type: UpdateStrategyType,

    /// Maximum number of nodes that may be unavailable during an update, as a number or a percentage of the replicas. Defaults to
    /// all nodes, because a chain that halts for an upgrade needs every node to restart with the new image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,

    /// Whether an update may take down a third of the voting power of the chain or more, which halts it. If false, validators are
    /// updated only as long as the others can produce blocks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_chain_halt: bool,

    /// Parameters of the strategy HardFork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_fork: Option<HardFork>,
}

/// The type of an update strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum UpdateStrategyType {
    /// Existing nodes are updated.
    #[default]
    InPlace,
    /// New nodes replace the existing ones. Refused: two nodes would sign with one key.
    BlueGreen,
    /// New nodes replace the existing ones at a block height.
    HardFork,
}

/// Parameters of a hard fork.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HardFork {
    /// Block height at which the existing nodes halt.
    #[schemars(range(min = 1))]
    pub halt_height: i64,
}
