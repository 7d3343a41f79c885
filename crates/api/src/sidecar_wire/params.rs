//! Parameters of the tasks that plans use. Other tasks have no parameters, or none that a plan sets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `snapshot-restore`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotRestore {
    /// Maximum height of the snapshot: the latest one at or below it is restored. 0 means no maximum.
    #[serde(skip_serializing_if = "is_zero")]
    pub target_height: i64,
}

/// `configure-genesis`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigureGenesis {
    /// Expected SHA-256 of the genesis file in lower-case hexadecimal. If unset, any file is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_genesis_hash: Option<String>,
}

/// `config-apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigApply {
    /// Defaults to start from. If unset in an incremental change, the existing files are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ConfigMode>,

    /// Whether to change the existing files instead of rewriting them.
    pub incremental: bool,

    /// Version of the configuration schema. 0 means the latest.
    pub target_version: i32,

    /// Overrides of the defaults: dotted field names to values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, String>,
}

/// The defaults of a node's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfigMode {
    /// A validator.
    Validator,
    /// A full node.
    Full,
    /// A seed node.
    Seed,
    /// An archive node.
    Archive,
}

impl ConfigMode {
    /// Returns the mode as it is serialized.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validator => "validator",
            Self::Full => "full",
            Self::Seed => "seed",
            Self::Archive => "archive",
        }
    }
}

/// `discover-peers`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoverPeers {
    /// Sources of peers. At least one is required.
    pub sources: Vec<PeerDiscovery>,
}

/// A source of peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum PeerDiscovery {
    /// EC2 instances selected by tags.
    Ec2Tags {
        /// AWS region to search.
        region: String,
        /// Tags that an instance must have.
        tags: BTreeMap<String, String>,
    },
    /// A static list.
    Static {
        /// Peer addresses in the form `nodeId@host:port`.
        addresses: Vec<String>,
    },
    /// Hosts whose sidecars are asked for their node IDs.
    DnsEndpoints {
        /// Host names.
        endpoints: Vec<String>,
    },
}

/// `configure-state-sync`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigureStateSync {
    /// Whether to trust the height of the snapshot that was restored before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub use_local_snapshot: bool,

    /// Trust period of the light client.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trust_period: String,

    /// Number of blocks before the snapshot to download as well.
    #[serde(skip_serializing_if = "is_zero")]
    pub backfill_blocks: i64,

    /// RPC servers of the light client, as `host:port`. If unset, peers are used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rpc_servers: Vec<String>,
}

/// `reset-data`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetData {
    /// Confirms the reset of a node that signs blocks. The record of its last signature is reset as well, so that it may sign the same
    /// height twice.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub confirm_validator_reset: bool,
}

/// `await-condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitCondition {
    /// Condition to wait for.
    pub condition: AwaitedCondition,

    /// Height to wait for, if the condition is a height.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub target_height: i64,

    /// Action once the condition is met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<AwaitAction>,
}

/// A condition to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AwaitedCondition {
    /// The node has reached a height.
    Height,
    /// The node has caught up with the chain.
    CatchingUp,
}

/// An action at the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AwaitAction {
    /// Sends SIGTERM to seid.
    #[serde(rename = "SIGTERM_SEID")]
    SigtermSeid,
}

/// `generate-identity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GenerateIdentity {
    /// ID of the new chain.
    pub chain_id: String,

    /// Moniker of the node.
    pub moniker: String,
}

/// `generate-gentx`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GenerateGentx {
    /// ID of the new chain.
    pub chain_id: String,

    /// Amount that the validator stakes.
    pub staking_amount: String,

    /// Initial balance of the validator's account.
    pub account_balance: String,

    /// Overrides of the default genesis parameters, as a JSON document.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub genesis_params: String,
}

/// `upload-genesis-artifacts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UploadGenesisArtifacts {
    /// Name of the node.
    pub node_name: String,
}

/// `assemble-and-upload-genesis`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AssembleGenesis {
    /// Initial balance of each validator's account.
    pub account_balance: String,

    /// Namespace of the validators.
    pub namespace: String,

    /// The validators.
    pub nodes: Vec<CeremonyNode>,

    /// Additional accounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<CeremonyAccount>,

    /// Overrides of the default genesis parameters: dotted names to values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Value>,
}

/// A validator of a new chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CeremonyNode {
    /// Name of the node.
    pub name: String,
}

/// An account of a new chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CeremonyAccount {
    /// Address of the account, starting with `sei1`.
    pub address: String,

    /// Initial balance.
    pub balance: String,

    /// Vesting of the balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vesting: Option<CeremonyVesting>,
}

/// Vesting of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CeremonyVesting {
    /// Vesting amount.
    pub amount: String,

    /// End of the vesting period in seconds since the epoch.
    pub end_time: i64,

    /// Whether everything vests at the end instead of continuously.
    #[serde(default)]
    pub delayed: bool,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    fn assert_round_trip<T: Serialize + DeserializeOwned>(document: &Value) {
        let parsed: T = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(serde_json::to_value(&parsed).unwrap(), *document);
    }

    #[test]
    fn parameters_round_trip() {
        assert_round_trip::<SnapshotRestore>(&json!({}));
        assert_round_trip::<SnapshotRestore>(&json!({"targetHeight": 5}));
        assert_round_trip::<ConfigureGenesis>(&json!({"expectedGenesisHash": "ab"}));
        assert_round_trip::<ConfigApply>(
            &json!({"mode": "full", "incremental": false, "targetVersion": 0, "overrides": {"logging.level": "info"}}),
        );
        assert_round_trip::<DiscoverPeers>(&json!({"sources": [
            {"type": "ec2Tags", "region": "us-east-2", "tags": {"a": "b"}},
            {"type": "static", "addresses": ["id@host:26656"]},
            {"type": "dnsEndpoints", "endpoints": ["a-0.a.sei.svc.cluster.local"]},
        ]}));
        assert_round_trip::<ConfigureStateSync>(&json!({}));
        assert_round_trip::<ConfigureStateSync>(
            &json!({"useLocalSnapshot": true, "trustPeriod": "168h", "backfillBlocks": 9}),
        );
        assert_round_trip::<ResetData>(&json!({}));
        assert_round_trip::<ResetData>(&json!({"confirmValidatorReset": true}));
        assert_round_trip::<AwaitCondition>(
            &json!({"condition": "height", "targetHeight": 9, "action": "SIGTERM_SEID"}),
        );
        assert_round_trip::<AwaitCondition>(&json!({"condition": "catchingUp"}));
        assert_round_trip::<GenerateIdentity>(&json!({"chainId": "c", "moniker": "m"}));
        assert_round_trip::<GenerateGentx>(
            &json!({"chainId": "c", "stakingAmount": "1usei", "accountBalance": "2usei"}),
        );
        assert_round_trip::<UploadGenesisArtifacts>(&json!({"nodeName": "n"}));
        assert_round_trip::<AssembleGenesis>(&json!({
            "accountBalance": "2usei", "namespace": "sei", "nodes": [{"name": "n-0"}],
            "accounts": [
                {"address": "sei1a", "balance": "1usei"},
                {"address": "sei1b", "balance": "1usei", "vesting": {"amount": "1usei", "endTime": 9, "delayed": true}},
            ],
            "overrides": {"gov.x": {"y": 1}},
        }));
    }
}
