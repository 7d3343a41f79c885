//! Validators, the only kind of node with keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SnapshotSource, rules};
use crate::rule::validations;

/// The default name of the key in an operator keyring.
pub const DEFAULT_OPERATOR_KEY_NAME: &str = "node_admin";

/// A validator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic", "x-kubernetes-validations" = validations(rules::VALIDATOR)))]
pub struct ValidatorSpec {
    /// Snapshot to start from. If unset, the node syncs from the first block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotSource>,

    /// The node's role in the genesis ceremony of a new chain. Set by the operator on nodes of a `SeiNodeDeployment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub genesis_ceremony: Option<GenesisCeremony>,

    /// Key that signs blocks. Requires `nodeKey`. Immutable once set, because two nodes that sign with one key are slashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<SigningKey>,

    /// Key that identifies the node to its peers. Requires `signingKey`. Immutable once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_key: Option<NodeKey>,

    /// Keyring of the validator's operator account. It is validated, and mounted into no container, because nothing signs with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_keyring: Option<OperatorKeyring>,
}

/// A node's role in the genesis ceremony of a new chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenesisCeremony {
    /// ID of the new chain.
    #[schemars(length(min = 1, max = 64))]
    pub chain_id: String,

    /// Amount that the validator stakes, with denomination.
    #[schemars(length(min = 1, max = 256))]
    pub staking_amount: String,

    /// Initial balance of the validator's account, as amounts with denominations.
    #[schemars(length(min = 1, max = 1024))]
    pub account_balance: String,

    /// Overrides of the default genesis parameters, as a JSON document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub genesis_params: Option<String>,

    /// Index of the validator in the ceremony, starting at 0.
    #[schemars(range(min = 0))]
    pub index: i32,
}

/// The source of the signing key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SigningKey {
    /// Secret with the key `priv_validator_key.json`.
    pub secret: SecretKeySource,
}

/// The source of the node key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeKey {
    /// Secret with the key `node_key.json`.
    pub secret: SecretKeySource,
}

/// A Secret in the node's namespace. The operator never changes or deletes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeySource {
    /// Name of the Secret. Immutable.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::OBJECT_NAME)))]
    pub secret_name: String,
}

/// The source of the operator keyring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorKeyring {
    /// Secret with the encrypted keyring.
    pub secret: KeyringSecret,
}

/// An encrypted keyring in a Secret of the node's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyringSecret {
    /// Name of the Secret. Immutable.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::OBJECT_NAME)))]
    pub secret_name: String,

    /// Name of the key in the keyring that signs transactions. It can be changed.
    #[serde(default = "default_key_name")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = validations(rules::KEY_NAME)))]
    pub key_name: String,

    /// Passphrase of the keyring. It must be in a different Secret than the keyring.
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

/// A key of a Secret in the node's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassphraseSecretRef {
    /// Name of the Secret. Immutable.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::OBJECT_NAME)))]
    pub secret_name: String,

    /// Key in the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}
