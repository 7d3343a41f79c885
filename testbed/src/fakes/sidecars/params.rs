//! Validates task parameters like the real sidecar. A fake that accepts everything would hide nodes that can never
//! start.

use api::sidecar_wire::{
    AssembleGenesis, AwaitCondition, AwaitedCondition, ConfigApply, ConfigureGenesis, ConfigureStateSync,
    DiscoverPeers, GenerateGentx, GenerateIdentity, PeerDiscovery, SnapshotRestore, TaskType,
    UploadGenesisArtifacts,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

type Validation = Result<(), String>;

/// Rejects parameters that are invalid for the task type.
pub(super) fn validate(task_type: TaskType, params: Option<&Map<String, Value>>) -> Validation {
    let params = Value::Object(params.cloned().unwrap_or_default());
    match task_type {
        TaskType::ConfigApply => config_apply(&read(params)?),
        TaskType::DiscoverPeers => discover_peers(&read(params)?),
        TaskType::AwaitCondition => await_condition(&read(params)?),
        TaskType::SnapshotRestore => {
            let params: SnapshotRestore = read(params)?;
            reject_if(params.target_height < 0, "targetHeight must not be negative")
        }
        TaskType::ConfigureGenesis => configure_genesis(&read(params)?),
        TaskType::ConfigureStateSync => {
            let params: ConfigureStateSync = read(params)?;
            reject_if(params.backfill_blocks < 0, "backfillBlocks must not be negative")
        }
        TaskType::GenerateIdentity => {
            let params: GenerateIdentity = read(params)?;
            required([("chainId", &params.chain_id), ("moniker", &params.moniker)])
        }
        TaskType::GenerateGentx => {
            let params: GenerateGentx = read(params)?;
            required([
                ("chainId", &params.chain_id),
                ("stakingAmount", &params.staking_amount),
                ("accountBalance", &params.account_balance),
            ])
        }
        TaskType::UploadGenesisArtifacts => {
            let params: UploadGenesisArtifacts = read(params)?;
            required([("nodeName", &params.node_name)])
        }
        TaskType::AssembleAndUploadGenesis => assemble_genesis(&read(params)?),
        _ => Ok(()),
    }
}

fn config_apply(params: &ConfigApply) -> Validation {
    reject_if(params.mode.is_none() && !params.incremental, "mode is required")?;
    reject_if(params.target_version < 0, "targetVersion must not be negative")
}

fn discover_peers(params: &DiscoverPeers) -> Validation {
    reject_if(params.sources.is_empty(), "at least one source is required")?;
    for (index, source) in params.sources.iter().enumerate() {
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

fn await_condition(params: &AwaitCondition) -> Validation {
    let unreachable = params.condition == AwaitedCondition::Height && params.target_height <= 0;
    reject_if(unreachable, "targetHeight must be above 0")
}

fn configure_genesis(params: &ConfigureGenesis) -> Validation {
    let is_hash = |hash: &String| {
        hash.len() == 64 && hash.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    let invalid = params.expected_genesis_hash.as_ref().is_some_and(|hash| !is_hash(hash));
    reject_if(invalid, "expectedGenesisHash must be a SHA-256 in lower-case hexadecimal")
}

fn assemble_genesis(params: &AssembleGenesis) -> Validation {
    required([("accountBalance", &params.account_balance), ("namespace", &params.namespace)])?;
    reject_if(params.nodes.is_empty(), "at least one node is required")?;
    for account in &params.accounts {
        required([("address", &account.address), ("balance", &account.balance)])?;
        reject_if(
            !account.address.starts_with("sei1"),
            &format!("{} is not a sei address", account.address),
        )?;
    }
    Ok(())
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, String> {
    serde_json::from_value(params).map_err(|error| format!("parsing params: {error}"))
}

fn required<const N: usize>(fields: [(&str, &String); N]) -> Validation {
    match fields.iter().find(|(_, value)| value.is_empty()) {
        None => Ok(()),
        Some((name, _)) => Err(format!("{name} is required")),
    }
}

fn reject_if(invalid: bool, message: &str) -> Validation {
    if invalid { Err(message.to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_params_are_rejected() {
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
            let error = validate(task_type, params.as_object()).unwrap_err();
            assert!(error.contains(refusal), "{task_type}: {error}");
        }
    }

    #[test]
    fn params_of_plans_are_accepted() {
        for (task_type, params) in [
            (TaskType::ConfigApply, json!({"mode": "full", "incremental": false, "targetVersion": 0})),
            (TaskType::ConfigApply, json!({"incremental": true})),
            (TaskType::AwaitCondition, json!({"condition": "catchingUp"})),
            (TaskType::SnapshotRestore, json!({})),
            (TaskType::MarkReady, json!({})),
        ] {
            validate(task_type, params.as_object()).unwrap();
            validate(TaskType::MarkReady, None).unwrap();
        }
    }
}
