//! Parameters are checked as a real sidecar checks them: one that took everything would let a test pass whose node
//! could never come up.

use api::sidecar_wire::{
    AssembleGenesis, AwaitCondition, AwaitedCondition, ConfigApply, ConfigureGenesis, ConfigureStateSync,
    DiscoverPeers, GenerateGentx, GenerateIdentity, PeerDiscovery, SnapshotRestore, TaskType,
    UploadGenesisArtifacts,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

type Checked = Result<(), String>;

/// Refuses parameters that a task of this type cannot be done with.
pub(super) fn check(task_type: TaskType, params: Option<&Map<String, Value>>) -> Checked {
    let params = Value::Object(params.cloned().unwrap_or_default());
    match task_type {
        TaskType::ConfigApply => config_apply(&read(params)?),
        TaskType::DiscoverPeers => discover_peers(&read(params)?),
        TaskType::AwaitCondition => await_condition(&read(params)?),
        TaskType::SnapshotRestore => {
            let wanted: SnapshotRestore = read(params)?;
            unless(wanted.target_height < 0, "targetHeight must not be negative")
        }
        TaskType::ConfigureGenesis => configure_genesis(&read(params)?),
        TaskType::ConfigureStateSync => {
            let wanted: ConfigureStateSync = read(params)?;
            unless(wanted.backfill_blocks < 0, "backfillBlocks must not be negative")
        }
        TaskType::GenerateIdentity => {
            let wanted: GenerateIdentity = read(params)?;
            required([("chainId", &wanted.chain_id), ("moniker", &wanted.moniker)])
        }
        TaskType::GenerateGentx => {
            let wanted: GenerateGentx = read(params)?;
            required([
                ("chainId", &wanted.chain_id),
                ("stakingAmount", &wanted.staking_amount),
                ("accountBalance", &wanted.account_balance),
            ])
        }
        TaskType::UploadGenesisArtifacts => {
            let wanted: UploadGenesisArtifacts = read(params)?;
            required([("nodeName", &wanted.node_name)])
        }
        TaskType::AssembleAndUploadGenesis => assemble_genesis(&read(params)?),
        _ => Ok(()),
    }
}

fn config_apply(wanted: &ConfigApply) -> Checked {
    unless(wanted.mode.is_none() && !wanted.incremental, "mode is required")?;
    unless(wanted.target_version < 0, "targetVersion must not be negative")
}

fn discover_peers(wanted: &DiscoverPeers) -> Checked {
    unless(wanted.sources.is_empty(), "at least one source is required")?;
    for (index, source) in wanted.sources.iter().enumerate() {
        let missing = match source {
            PeerDiscovery::Ec2Tags { region, tags } => {
                (region.is_empty() || tags.is_empty()).then_some("region and tags")
            }
            PeerDiscovery::Static { addresses } => addresses.is_empty().then_some("addresses"),
            PeerDiscovery::DnsEndpoints { endpoints } => endpoints.is_empty().then_some("endpoints"),
        };
        if let Some(missing) = missing {
            return Err(format!("source {index}: {missing} required"));
        }
    }
    Ok(())
}

fn await_condition(wanted: &AwaitCondition) -> Checked {
    let endless = wanted.condition == AwaitedCondition::Height && wanted.target_height <= 0;
    unless(endless, "targetHeight must be above 0")
}

fn configure_genesis(wanted: &ConfigureGenesis) -> Checked {
    let is_hash = |hash: &String| {
        hash.len() == 64 && hash.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    let wrong = wanted.expected_genesis_hash.as_ref().is_some_and(|hash| !is_hash(hash));
    unless(wrong, "expectedGenesisHash must be a SHA-256 in lower-case hexadecimal")
}

fn assemble_genesis(wanted: &AssembleGenesis) -> Checked {
    required([("accountBalance", &wanted.account_balance), ("namespace", &wanted.namespace)])?;
    unless(wanted.nodes.is_empty(), "at least one node is required")?;
    for account in &wanted.accounts {
        required([("address", &account.address), ("balance", &account.balance)])?;
        unless(!account.address.starts_with("sei1"), &format!("{} is no sei address", account.address))?;
    }
    Ok(())
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, String> {
    serde_json::from_value(params).map_err(|error| format!("parsing params: {error}"))
}

fn required<const N: usize>(fields: [(&str, &String); N]) -> Checked {
    match fields.iter().find(|(_, value)| value.is_empty()) {
        None => Ok(()),
        Some((name, _)) => Err(format!("{name} is required")),
    }
}

fn unless(wrong: bool, message: &str) -> Checked {
    if wrong { Err(message.to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_task_cannot_be_done_with_is_refused() {
        for (task_type, params, refusal) in [
            (TaskType::ConfigApply, json!({"mode": "fast"}), "unknown variant `fast`"),
            (TaskType::ConfigApply, json!({}), "mode is required"),
            (TaskType::ConfigApply, json!({"mode": "full", "overrides": {"a": 1}}), "parsing params"),
            (TaskType::DiscoverPeers, json!({}), "at least one source"),
            (
                TaskType::DiscoverPeers,
                json!({"sources": [
                    {"type": "static", "addresses": ["a@b:1"]},
                    {"type": "dnsEndpoints", "endpoints": []},
                ]}),
                "source 1: endpoints",
            ),
            (TaskType::DiscoverPeers, json!({"sources": [{"type": "gossip"}]}), "unknown variant `gossip`"),
            (TaskType::AwaitCondition, json!({"condition": "height"}), "above 0"),
            (TaskType::AwaitCondition, json!({"condition": "weather"}), "unknown variant `weather`"),
            (TaskType::SnapshotRestore, json!({"targetHeight": -1}), "negative"),
            (TaskType::ConfigureGenesis, json!({"expectedGenesisHash": "AB"}), "SHA-256"),
            (TaskType::GenerateIdentity, json!({"chainId": "c"}), "moniker is required"),
            (TaskType::GenerateGentx, json!({"chainId": "c"}), "stakingAmount is required"),
            (TaskType::UploadGenesisArtifacts, json!({}), "nodeName is required"),
            (
                TaskType::AssembleAndUploadGenesis,
                json!({"accountBalance": "1usei", "namespace": "sei"}),
                "at least one node",
            ),
        ] {
            let refused = check(task_type, params.as_object()).unwrap_err();
            assert!(refused.contains(refusal), "{task_type}: {refused}");
        }
    }

    #[test]
    fn what_plans_are_made_of_is_taken() {
        for (task_type, params) in [
            (TaskType::ConfigApply, json!({"mode": "full", "incremental": false, "targetVersion": 0})),
            (TaskType::ConfigApply, json!({"incremental": true})),
            (TaskType::AwaitCondition, json!({"condition": "catchingUp"})),
            (TaskType::SnapshotRestore, json!({})),
            (TaskType::MarkReady, json!({})),
        ] {
            check(task_type, params.as_object()).unwrap();
            check(TaskType::MarkReady, None).unwrap();
        }
    }
}
