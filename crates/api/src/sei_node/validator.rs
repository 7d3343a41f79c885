//! A validator: the only kind of node that holds keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SnapshotSource, rules};
use crate::rule::validations;

/// The key in an operator's keyring that is used when none is named.
pub const DEFAULT_OPERATOR_KEY_NAME: &str = "node_admin";

/// A node that validates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic", "x-kubernetes-validations" = validations(rules::VALIDATOR)))]
pub struct ValidatorSpec {
    /// What the node starts from. Absent: the chain's first block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotSource>,

    /// The node's part in the making of a new chain. Written by the operator for nodes of a `SeiNodeDeployment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub genesis_ceremony: Option<GenesisCeremony>,

    /// The key that signs blocks. Goes together with `nodeKey`. Once set it stays: two nodes that sign with one key are slashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<SigningKey>,

    /// The key that identifies the node among its peers. Goes together with `signingKey`. Once set it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_key: Option<NodeKey>,

    /// The keys of the account that operates the validator. Only the sidecar ever sees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_keyring: Option<OperatorKeyring>,
}

/// One node's part in the making of a new chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenesisCeremony {
    /// The new chain.
    #[schemars(length(min = 1, max = 64))]
    pub chain_id: String,

    /// What the validator stakes, as amount and denomination.
    #[schemars(length(min = 1, max = 256))]
    pub staking_amount: String,

    /// What the validator's account holds at the start, as amounts and denominations.
    #[schemars(length(min = 1, max = 1024))]
    pub account_balance: String,

    /// Values of the genesis file that differ from the defaults, as a JSON document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub genesis_params: Option<String>,

    /// Which of the chain's first validators this is, from 0.
    #[schemars(range(min = 0))]
    pub index: i32,
}

/// Where the key that signs blocks is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SigningKey {
    /// A Secret that holds it under `priv_validator_key.json`.
    pub secret: SecretKeySource,
}

/// Where the key that identifies the node is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeKey {
    /// A Secret that holds it under `node_key.json`.
    pub secret: SecretKeySource,
}

/// A Secret in the node's namespace. It is read, never changed or deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeySource {
    /// The Secret's name. It cannot change.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::OBJECT_NAME)))]
    pub secret_name: String,
}

/// Where the keys of the operating account are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorKeyring {
    /// A Secret that holds an encrypted keyring.
    pub secret: KeyringSecret,
}

/// An encrypted keyring in a Secret of the node's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyringSecret {
    /// The Secret's name. It cannot change.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::OBJECT_NAME)))]
    pub secret_name: String,

    /// The key in the ring that signs. It may change.
    #[serde(default = "default_key_name")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = validations(rules::KEY_NAME)))]
    pub key_name: String,

    /// Where the keyring's passphrase is. It must be another Secret than the keyring's own.
    pub passphrase_secret_ref: PassphraseSecretRef,
}

fn default_key_name() -> String {
    DEFAULT_OPERATOR_KEY_NAME.into()
}

impl Default for KeyringSecret {
    fn default() -> Self {
        Self {
            secret_name: String::new(),
            key_name: default_key_name(),
            passphrase_secret_ref: PassphraseSecretRef::default(),
        }
    }
}

/// One value of a Secret in the node's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassphraseSecretRef {
    /// The Secret's name. It cannot change.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::OBJECT_NAME)))]
    pub secret_name: String,

    /// The key in the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}
