//! The making of a new chain.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rules;
use crate::rule::validations;
use crate::schema;

/// The making of a new chain, with the fleet's nodes as its first validators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenesisCeremonyConfig {
    /// The new chain: the same as in the template.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = validations(rules::GENESIS_CHAIN_ID)))]
    pub chain_id: String,

    /// What each validator stakes, as amount and denomination.
    #[serde(default = "default_staking_amount")]
    #[schemars(length(max = 256))]
    pub staking_amount: String,

    /// What each validator's account holds at the start, as amounts and denominations.
    #[serde(default = "default_account_balance")]
    #[schemars(length(max = 1024))]
    pub account_balance: String,

    /// Further accounts of the new chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub accounts: Vec<GenesisAccount>,

    /// Values of the genesis file that differ from the defaults: dotted names to values, for example
    /// `gov.voting_params.voting_period: "60s"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub overrides: BTreeMap<String, Value>,

    /// How long the ceremony may take before it has failed, for example `15m`.
    #[serde(default = "default_max_ceremony_duration")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = validations(rules::DURATION)))]
    pub max_ceremony_duration: String,
}

fn default_staking_amount() -> String {
    "10000000usei".into()
}

fn default_account_balance() -> String {
    "1000000000000000000000usei,1000000000000000000000uusdc,1000000000000000000000uatom".into()
}

fn default_max_ceremony_duration() -> String {
    "15m".into()
}

/// An account of the new chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenesisAccount {
    /// The account, as `sei1...`.
    #[schemars(length(max = 128), extend("x-kubernetes-validations" = validations(rules::ACCOUNT_ADDRESS)))]
    pub address: String,

    /// What the account holds at the start, as amounts and denominations.
    #[schemars(length(min = 1, max = 1024))]
    pub balance: String,
}
