//! The genesis ceremony of a new chain.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rules;
use crate::rule::validations;
use crate::schema;

/// The genesis ceremony of a new chain, with the nodes of the fleet as its initial validators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenesisCeremonyConfig {
    /// ID of the new chain. It must equal the chain ID in the template.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = validations(rules::GENESIS_CHAIN_ID)))]
    pub chain_id: String,

    /// Amount that each validator stakes, with denomination.
    #[serde(default = "default_staking_amount")]
    #[schemars(length(max = 256))]
    pub staking_amount: String,

    /// Initial balance of each validator's account, as amounts with denominations.
    #[serde(default = "default_account_balance")]
    #[schemars(length(max = 1024))]
    pub account_balance: String,

    /// Additional accounts of the new chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub accounts: Vec<GenesisAccount>,

    /// Overrides of the default genesis parameters: dotted names to values, for example
    /// `gov.voting_params.voting_period: "60s"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub overrides: BTreeMap<String, Value>,

    /// Timeout of the ceremony, for example `15m`.
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
    /// Address of the account, starting with `sei1`.
    #[schemars(length(max = 128), extend("x-kubernetes-validations" = validations(rules::ACCOUNT_ADDRESS)))]
    pub address: String,

    /// Initial balance of the account, as amounts with denominations.
    #[schemars(length(min = 1, max = 1024))]
    pub balance: String,
}
