//! `generate-gentx`: makes the account of a validator of a new chain, and declares the validator.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use api::sidecar_wire::{GenerateGentx, TaskType};
use chain::account::AccountKey;
use chain::address::Prefix;
use chain::coin::{Coin, Coins};
use chain::genesis::Genesis;
use chain::gentx::{Declaration, Gentx};
use chain::identity::{ConsensusKey, NodeKey};
use chain::keyring;
use serde_json::json;

use super::super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use super::{failed, random, read};
use crate::node::{config, files, home, marker};

const TASK: &str = "generate-gentx";

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::GenerateGentx,
    changes: &[Resource::Genesis],
    limit: Limit::Within(Duration::from_secs(120)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let params: GenerateGentx = work.params()?;
    let given = json!(params);
    let home = work.node.home().to_owned();
    if let Some(done) = marker::GENTX.read(&home).map_err(failed(TASK))? {
        return Ok(Some(done.result(&given)));
    }
    super::check_chain(&work, TASK, &params.chain_id)?;
    super::required(TASK, "stakingAmount", &params.staking_amount)?;
    super::required(TASK, "accountBalance", &params.account_balance)?;
    let stake = Coin::parse(&params.staking_amount)
        .map_err(|error| Failure::new(format_args!("{TASK}: stakingAmount: {error}")))?;
    let balance = Coins::parse(&params.account_balance)
        .map_err(|error| Failure::new(format_args!("{TASK}: accountBalance: {error}")))?;
    if balance.of(&stake.denomination) < stake.amount {
        return Err(Failure::new(format_args!("{TASK}: accountBalance is less than stakingAmount")));
    }
    work.blocking(move || {
        let key = account_key(&home)?;
        add_account(&home, &params.chain_id, &key, &balance)?;
        let file = declare(&home, &params.chain_id, &key, &stake)?;
        let address = key.address();
        let mut result = json!({
            "address": address.to_text(Prefix::Account),
            "operatorAddress": address.to_text(Prefix::Operator),
            "file": file,
        });
        if !params.genesis_params.is_empty() {
            result["ignored"] =
                json!("genesisParams: give them to assemble-and-upload-genesis, as overrides");
        }
        marker::GENTX.write(&home, &given, &result).map_err(failed(TASK))?;
        Ok(Some(result))
    })
    .await
}

/// The key of the account: the one that is in the keyring, or a new one. It is on disk before anything is signed with it.
fn account_key(home: &Path) -> Result<AccountKey, Failure> {
    let folder = home.join(home::KEYRING);
    let there = read(&folder.join(keyring::KEY_FILE)).map_err(failed(TASK))?;
    let key = match &there {
        Some(file) => keyring::read(file).map_err(failed(TASK))?,
        None => AccountKey::from_bytes(&random()?).map_err(failed(TASK))?,
    };
    files::private_folder(&folder).map_err(failed(TASK))?;
    for file in keyring::files(&key, [randomness()?, randomness()?]).map_err(failed(TASK))? {
        let path = folder.join(&file.name);
        // The first names the key; the second is found by its address. A kill between the two left only the first.
        if !path.exists() {
            files::write(&path, file.content.expose(), 0o600).map_err(failed(TASK))?;
        }
    }
    Ok(key)
}

fn randomness() -> Result<keyring::Randomness, Failure> {
    Ok(keyring::Randomness { content_key: random()?, salt: *random()?, nonce: *random()? })
}

/// Puts the account into the genesis file, unless it is there.
fn add_account(home: &Path, chain_id: &str, key: &AccountKey, balance: &Coins) -> Result<(), Failure> {
    let path = home.join(home::GENESIS);
    let there = files::read_bytes(&path).map_err(failed(TASK))?;
    let there = there.ok_or_else(|| {
        Failure::new(format_args!("{TASK}: there is no {}: generate-identity makes it", home::GENESIS))
    })?;
    let mut genesis = Genesis::parse(&there).map_err(failed(TASK))?;
    if genesis.chain_id() != chain_id {
        let other = genesis.chain_id();
        return Err(Failure::new(format_args!("{TASK}: {} is of chain {other}", home::GENESIS)));
    }
    genesis.add_account(key.address(), balance).map_err(failed(TASK))?;
    genesis.associate(key.address(), &key.evm_address()).map_err(failed(TASK))?;
    let new = genesis.file();
    if new.as_bytes() == there {
        return Ok(());
    }
    files::write(&path, new.as_bytes(), 0o644).map_err(failed(TASK))
}

/// Writes the declaration. One that is there and is good stays: others may have it already.
fn declare(home: &Path, chain_id: &str, key: &AccountKey, stake: &Coin) -> Result<String, Failure> {
    let needed = |name: &str| {
        let file = read(&home.join(name)).map_err(failed(TASK))?;
        file.ok_or_else(|| {
            Failure::new(format_args!("{TASK}: there is no {name}: generate-identity makes it"))
        })
    };
    let node_id = NodeKey::parse(&needed(home::NODE_KEY)?).map_err(failed(TASK))?.id();
    let consensus_key = ConsensusKey::parse(&needed(home::CONSENSUS_KEY)?).map_err(failed(TASK))?.public();
    let folder = home.join(home::GENTX);
    files::private_folder(&folder).map_err(failed(TASK))?;
    let name = format!("gentx-{node_id}.json");
    let path = folder.join(&name);
    let shown = format!("{}/{name}", home::GENTX);
    let is_ours = |gentx: &Gentx| {
        gentx.delegator() == key.address()
            && *gentx.consensus_key() == consensus_key
            && gentx.stake() == stake
    };
    let there = files::read_bytes(&path).map_err(failed(TASK))?;
    if there.and_then(|file| Gentx::parse(&file, chain_id).ok()).is_some_and(|gentx| is_ours(&gentx)) {
        return Ok(shown);
    }
    let declaration = Declaration {
        chain_id,
        // As the program that we replace: the pod's name.
        moniker: &config::host().name,
        node_id: &node_id,
        address: &own_address().to_string(),
        consensus_key,
        stake,
        gas_limit: 0,
    };
    let gentx = Gentx::sign(&declaration, key).map_err(failed(TASK))?;
    files::write(&path, gentx.file().as_bytes(), 0o600).map_err(failed(TASK))?;
    Ok(shown)
}

/// An address of this host. Nobody connects to it: it must only not be empty. Nothing is sent: the kernel says which address it
/// would send from.
fn own_address() -> Ipv4Addr {
    let asked = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)).and_then(|()| socket.local_addr())
    });
    match asked {
        Ok(std::net::SocketAddr::V4(address)) if !address.ip().is_unspecified() => *address.ip(),
        _ => Ipv4Addr::LOCALHOST,
    }
}
