//! Parameters of the tasks that plans are made of. Tasks that are not here have none, or none that a plan sets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `snapshot-restore`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotRestore {
    /// The newest snapshot that is not above this height is taken; 0 for the newest of all.
    #[serde(skip_serializing_if = "is_zero")]
    pub target_height: i64,
}

/// `configure-genesis`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigureGenesis {
    /// SHA-256 that the file must have, in lower-case hexadecimal. Absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_genesis_hash: Option<String>,
}

/// `config-apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigApply {
    /// The defaults to begin with. Absent: those of the files that are there, if the change is incremental.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ConfigMode>,

    /// Change the files that are there, instead of writing them anew.
    pub incremental: bool,

    /// Version of the settings; 0 for the newest.
    pub target_version: i32,

    /// Settings that differ from the defaults: dotted names to values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, String>,
}

/// Defaults that a node's settings begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfigMode {
    /// Of a validator.
    Validator,
    /// Of a node that serves queries.
    Full,
    /// Of a node that only knows peers.
    Seed,
    /// Of a node that keeps everything.
    Archive,
}

/// `discover-peers`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoverPeers {
    /// Where to look; at least one.
    pub sources: Vec<PeerDiscovery>,
}

/// One place to look for peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum PeerDiscovery {
    /// Machines in EC2.
    Ec2Tags {
        /// The region to search in.
        region: String,
        /// Tags that a machine must carry.
        tags: BTreeMap<String, String>,
    },
    /// A fixed list.
    Static {
        /// Peers, each as `nodeId@host:port`.
        addresses: Vec<String>,
    },
    /// Hosts that tell who they are.
    DnsEndpoints {
        /// Host names.
        endpoints: Vec<String>,
    },
}

/// `configure-state-sync`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigureStateSync {
    /// Trust the height of the snapshot that was fetched before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub use_local_snapshot: bool,

    /// How old a block may be that is trusted by its hash.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trust_period: String,

    /// How many blocks before the snapshot are fetched as well.
    #[serde(skip_serializing_if = "is_zero")]
    pub backfill_blocks: i64,

    /// Nodes to ask for blocks to trust, each as `host:port`. Absent: peers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rpc_servers: Vec<String>,
}

/// `await-condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitCondition {
    /// What to wait for.
    pub condition: AwaitedCondition,

    /// The height, if that is waited for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub target_height: i64,

    /// What to do then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<AwaitAction>,
}

/// What can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AwaitedCondition {
    /// The node has reached a height.
    Height,
    /// The node has caught up with the chain.
    CatchingUp,
}

/// What can be done at the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AwaitAction {
    /// Stop seid.
    #[serde(rename = "SIGTERM_SEID")]
    SigtermSeid,
}

/// `generate-identity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GenerateIdentity {
    /// The new chain.
    pub chain_id: String,

    /// The node's name.
    pub moniker: String,
}

/// `generate-gentx`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GenerateGentx {
    /// The new chain.
    pub chain_id: String,

    /// What the validator stakes.
    pub staking_amount: String,

    /// What the validator's account holds.
    pub account_balance: String,

    /// Values of the genesis file that differ from the defaults, as a JSON document.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub genesis_params: String,
}

/// `upload-genesis-artifacts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UploadGenesisArtifacts {
    /// The node's name.
    pub node_name: String,
}

/// `assemble-and-upload-genesis`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AssembleGenesis {
    /// What each validator's account holds.
    pub account_balance: String,

    /// The namespace of the validators.
    pub namespace: String,

    /// The validators.
    pub nodes: Vec<CeremonyNode>,

    /// Further accounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<CeremonyAccount>,

    /// Values of the genesis file that differ from the defaults: dotted names to values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Value>,
}

/// A validator of a new chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CeremonyNode {
    /// The node's name.
    pub name: String,
}

/// An account of a new chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CeremonyAccount {
    /// The account, as `sei1...`.
    pub address: String,

    /// What the account holds.
    pub balance: String,

    /// What of it can be spent only later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vesting: Option<CeremonyVesting>,
}

/// Tokens of an account that can be spent only later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CeremonyVesting {
    /// How much.
    pub amount: String,

    /// When all of it can be spent, in seconds since 1970.
    pub end_time: i64,

    /// All at the end, instead of more and more.
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

    fn same<T: Serialize + DeserializeOwned>(document: &Value) {
        let read: T = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), *document);
    }

    #[test]
    fn parameters_are_written_as_sidecars_read_them() {
        same::<SnapshotRestore>(&json!({}));
        same::<SnapshotRestore>(&json!({"targetHeight": 5}));
        same::<ConfigureGenesis>(&json!({"expectedGenesisHash": "ab"}));
        same::<ConfigApply>(
            &json!({"mode": "full", "incremental": false, "targetVersion": 0, "overrides": {"logging.level": "info"}}),
        );
        same::<DiscoverPeers>(&json!({"sources": [
            {"type": "ec2Tags", "region": "us-east-2", "tags": {"a": "b"}},
            {"type": "static", "addresses": ["id@host:26656"]},
            {"type": "dnsEndpoints", "endpoints": ["a-0.a.sei.svc.cluster.local"]},
        ]}));
        same::<ConfigureStateSync>(&json!({}));
        same::<ConfigureStateSync>(
            &json!({"useLocalSnapshot": true, "trustPeriod": "168h", "backfillBlocks": 9}),
        );
        same::<AwaitCondition>(&json!({"condition": "height", "targetHeight": 9, "action": "SIGTERM_SEID"}));
        same::<AwaitCondition>(&json!({"condition": "catchingUp"}));
        same::<GenerateIdentity>(&json!({"chainId": "c", "moniker": "m"}));
        same::<GenerateGentx>(&json!({"chainId": "c", "stakingAmount": "1usei", "accountBalance": "2usei"}));
        same::<UploadGenesisArtifacts>(&json!({"nodeName": "n"}));
        same::<AssembleGenesis>(&json!({
            "accountBalance": "2usei", "namespace": "sei", "nodes": [{"name": "n-0"}],
            "accounts": [
                {"address": "sei1a", "balance": "1usei"},
                {"address": "sei1b", "balance": "1usei", "vesting": {"amount": "1usei", "endTime": 9, "delayed": true}},
            ],
            "overrides": {"gov.x": {"y": 1}},
        }));
    }
}
