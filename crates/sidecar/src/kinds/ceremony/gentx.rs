//! `generate-gentx`: creates the account of a genesis validator and signs its gentx.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use api::sidecar_wire::{GenerateGentx, TaskType};
use chain::account::AccountKey;
use chain::address::Prefix;
use chain::coin::{Coin, Coins};
use chain::genesis::Genesis;
use chain::gentx::{Gentx, GentxParams};
use chain::identity::{ConsensusKey, NodeKey};
use chain::keyring;
use serde_json::json;

use super::super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use super::{failed, random, read};
use crate::node::{config, files, home, marker};

const TASK: &str = "generate-gentx";

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::GenerateGentx,
    locks: &[Resource::Genesis],
    deadline: Deadline::After(Duration::from_secs(120)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: GenerateGentx = ctx.params()?;
    let params_json = json!(params);
    let home = ctx.node.home().to_owned();
    if let Some(completed) = marker::GENTX.read(&home).map_err(failed(TASK))? {
        return Ok(Some(completed.skipped_result(&params_json)));
    }
    super::check_chain(&ctx, TASK, &params.chain_id)?;
    super::required(TASK, "stakingAmount", &params.staking_amount)?;
    super::required(TASK, "accountBalance", &params.account_balance)?;
    let stake = Coin::parse(&params.staking_amount)
        .map_err(|error| TaskError::new(format_args!("{TASK}: stakingAmount: {error}")))?;
    let balance = Coins::parse(&params.account_balance)
        .map_err(|error| TaskError::new(format_args!("{TASK}: accountBalance: {error}")))?;
    if balance.amount_of(&stake.denomination) < stake.amount {
        return Err(TaskError::new(format_args!("{TASK}: accountBalance is less than stakingAmount")));
    }
    ctx.blocking(move || {
        let key = load_or_create_account_key(&home)?;
        add_account(&home, &params.chain_id, &key, &balance)?;
        let file = write_gentx(&home, &params.chain_id, &key, &stake)?;
        let address = key.address();
        let mut result = json!({
            "address": address.to_bech32(Prefix::Account),
            "operatorAddress": address.to_bech32(Prefix::Operator),
            "file": file,
        });
        if !params.genesis_params.is_empty() {
            result["ignored"] = json!("genesisParams: pass them to assemble-and-upload-genesis as overrides");
        }
        marker::GENTX.write(&home, &params_json, &result).map_err(failed(TASK))?;
        Ok(Some(result))
    })
    .await
}

/// Returns the account key from the keyring, or creates one. The key is on disk before anything is signed with it.
fn load_or_create_account_key(home: &Path) -> Result<AccountKey, TaskError> {
    let dir = home.join(home::KEYRING);
    let existing = read(&dir.join(keyring::KEY_FILE)).map_err(failed(TASK))?;
    let key = match &existing {
        Some(file) => keyring::read_key(file).map_err(failed(TASK))?,
        None => AccountKey::from_bytes(&random()?).map_err(failed(TASK))?,
    };
    files::create_private_dir(&dir).map_err(failed(TASK))?;
    for file in keyring::render_files(&key, [randomness()?, randomness()?]).map_err(failed(TASK))? {
        let path = dir.join(&file.name);
        // The first file is found by name, the second by address. A crash between the two writes leaves only the first.
        if !path.exists() {
            files::write(&path, file.content.expose(), 0o600).map_err(failed(TASK))?;
        }
    }
    Ok(key)
}

fn randomness() -> Result<keyring::Randomness, TaskError> {
    Ok(keyring::Randomness { content_key: random()?, salt: *random()?, nonce: *random()? })
}

/// Adds the account to the genesis file if it is missing.
fn add_account(home: &Path, chain_id: &str, key: &AccountKey, balance: &Coins) -> Result<(), TaskError> {
    let path = home.join(home::GENESIS);
    let existing = files::read_bytes(&path).map_err(failed(TASK))?;
    let existing = existing.ok_or_else(|| {
        TaskError::new(format_args!("{TASK}: {} not found: run generate-identity first", home::GENESIS))
    })?;
    let mut genesis = Genesis::parse(&existing).map_err(failed(TASK))?;
    if genesis.chain_id() != chain_id {
        let other = genesis.chain_id();
        return Err(TaskError::new(format_args!("{TASK}: {} belongs to chain {other}", home::GENESIS)));
    }
    genesis.add_account(key.address(), balance).map_err(failed(TASK))?;
    genesis.associate(key.address(), &key.evm_address()).map_err(failed(TASK))?;
    let new = genesis.file();
    if new.as_bytes() == existing {
        return Ok(());
    }
    files::write(&path, new.as_bytes(), 0o644).map_err(failed(TASK))
}

/// Writes the gentx. A valid existing one is kept: it may be published already.
fn write_gentx(home: &Path, chain_id: &str, key: &AccountKey, stake: &Coin) -> Result<String, TaskError> {
    let required_key = |name: &str| {
        let file = read(&home.join(name)).map_err(failed(TASK))?;
        file.ok_or_else(|| {
            TaskError::new(format_args!("{TASK}: {name} not found: run generate-identity first"))
        })
    };
    let node_id = NodeKey::parse(&required_key(home::NODE_KEY)?).map_err(failed(TASK))?.id();
    let consensus_key =
        ConsensusKey::parse(&required_key(home::CONSENSUS_KEY)?).map_err(failed(TASK))?.public();
    let dir = home.join(home::GENTX);
    files::create_private_dir(&dir).map_err(failed(TASK))?;
    let name = format!("gentx-{node_id}.json");
    let path = dir.join(&name);
    let relative = format!("{}/{name}", home::GENTX);
    let is_ours = |gentx: &Gentx| {
        gentx.delegator() == key.address()
            && *gentx.consensus_key() == consensus_key
            && gentx.stake() == stake
    };
    let existing = files::read_bytes(&path).map_err(failed(TASK))?;
    if existing.and_then(|file| Gentx::parse(&file, chain_id).ok()).is_some_and(|gentx| is_ours(&gentx)) {
        return Ok(relative);
    }
    let declaration = GentxParams {
        chain_id,
        // The pod name, as in upstream.
        moniker: &config::host().name,
        node_id: &node_id,
        address: &own_address().to_string(),
        consensus_key,
        stake,
        gas_limit: 0,
    };
    let gentx = Gentx::sign(&declaration, key).map_err(failed(TASK))?;
    files::write(&path, gentx.file().as_bytes(), 0o600).map_err(failed(TASK))?;
    Ok(relative)
}

/// Returns an address of this host. It only must not be empty; no peer connects to it. Connecting a UDP socket sends nothing: the
/// kernel just selects the source address.
fn own_address() -> Ipv4Addr {
    let local = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)).and_then(|()| socket.local_addr())
    });
    match local {
        Ok(std::net::SocketAddr::V4(address)) if !address.ip().is_unspecified() => *address.ip(),
        _ => Ipv4Addr::LOCALHOST,
    }
}
