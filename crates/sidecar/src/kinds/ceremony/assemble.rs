//! `assemble-and-upload-genesis`: makes the genesis file of a new chain of what all its validators declare.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use api::sidecar_wire::{AssembleGenesis, CeremonyAccount, TaskType};
use chain::coin::Coins;
use chain::genesis::{
    Assembled, Ceremony, Genesis, NewAccount, Participant, Vesting, assemble, node_id_of, peers_document,
};
use serde::Deserialize;
use serde_json::json;

use super::super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use super::failed;
use crate::ledger::Json;
use crate::node::marker::Done;
use crate::node::{files, home, marker};
use crate::objects::Objects;

const TASK: &str = "assemble-and-upload-genesis";

/// The longest declaration, and the longest document of who a node is.
const LONGEST: u64 = 1 << 20;

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::AssembleAndUploadGenesis,
    changes: &[Resource::Genesis],
    limit: Limit::Within(Duration::from_secs(1800)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

/// Overrides with every digit: amounts are larger than what other readers of JSON can hold.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Exact {
    overrides: BTreeMap<String, Json>,
}

async fn run(work: Work) -> Outcome {
    let params: AssembleGenesis = work.params()?;
    let given = json!(params);
    let home = work.node.home().to_owned();
    if let Some(done) = marker::ASSEMBLE.read(&home).map_err(failed(TASK))? {
        return work.blocking(move || again(&home, &done, &given)).await;
    }
    check(&params)?;
    let settings = work.node.settings();
    let objects = Objects::of(&settings.genesis).map_err(failed(TASK))?;
    let chain_id = settings.chain_id.clone();
    let (gentxs, peers) = fetch(&objects, &chain_id, &params).await?;
    let (folder, chain) = (home.clone(), chain_id.clone());
    let Exact { overrides } = work.params()?;
    let assembled = work.blocking(move || assembled(&folder, &chain, &params, &gentxs, &overrides)).await?;
    // Who finds the genesis begins: so peers go first.
    let write = |name: &str, content: String| {
        let (objects, key) = (&objects, format!("{chain_id}/{name}"));
        async move { objects.write_json(&key, content.into_bytes()).await.map_err(failed(TASK)) }
    };
    write("peers.json", peers).await?;
    write("genesis.json", assembled.file).await?;
    let mut result = json!({ "genesisHash": assembled.hash });
    if !assembled.warnings.is_empty() {
        result["warnings"] = json!(assembled.warnings);
    }
    work.blocking(move || {
        marker::ASSEMBLE.write(&home, &given, &result).map_err(failed(TASK))?;
        Ok(Some(result))
    })
    .await
}

/// What it came to when it was done. The program that we replace did not keep the hash: it is that of the file, which it had
/// put together in its place.
fn again(home: &Path, done: &Done, given: &serde_json::Value) -> Outcome {
    let mut result = done.result(given);
    if *done == Done::Somehow {
        let hash = files::hash(&home.join(home::GENESIS)).map_err(failed(TASK))?;
        result["genesisHash"] = json!(hash);
    }
    Ok(Some(result))
}

fn check(params: &AssembleGenesis) -> Result<(), Failure> {
    super::required(TASK, "accountBalance", &params.account_balance)?;
    super::required(TASK, "namespace", &params.namespace)?;
    super::check_name(TASK, "namespace", &params.namespace)?;
    if params.nodes.is_empty() {
        return Err(Failure::new(format_args!("{TASK}: 'nodes' list is empty")));
    }
    for (index, node) in params.nodes.iter().enumerate() {
        super::required(TASK, &format!("nodes[{index}].name"), &node.name)?;
        super::check_name(TASK, &format!("nodes[{index}].name"), &node.name)?;
    }
    Ok(())
}

/// The declaration of every node, and the document of who they all are.
async fn fetch(
    objects: &Objects,
    chain_id: &str,
    params: &AssembleGenesis,
) -> Result<(Vec<Vec<u8>>, String), Failure> {
    let (mut gentxs, mut ids) = (Vec::new(), Vec::new());
    for node in &params.nodes {
        let key = |name: &str| format!("{chain_id}/{}/{name}", node.name);
        gentxs.push(objects.read(&key("gentx.json"), LONGEST).await.map_err(failed(TASK))?);
        let identity = objects.read(&key("identity.json"), LONGEST).await.map_err(failed(TASK))?;
        ids.push((node.name.as_str(), node_id_of(&node.name, &identity).map_err(failed(TASK))?));
    }
    Ok((gentxs, peers_document(&ids, &params.namespace)))
}

fn assembled(
    home: &Path,
    chain_id: &str,
    params: &AssembleGenesis,
    gentxs: &[Vec<u8>],
    overrides: &BTreeMap<String, Json>,
) -> Result<Assembled, Failure> {
    let balance = Coins::parse(&params.account_balance)
        .map_err(|error| Failure::new(format_args!("{TASK}: accountBalance: {error}")))?;
    let base = base(home)?;
    if base.chain_id() != chain_id {
        return Err(Failure::new(format_args!("{TASK}: the genesis file is of chain {}", base.chain_id())));
    }
    let participants: Vec<Participant<'_>> = params
        .nodes
        .iter()
        .zip(gentxs)
        .map(|(node, gentx)| Participant { name: &node.name, gentx })
        .collect();
    let accounts: Vec<NewAccount> = params.accounts.iter().map(account).collect();
    let overrides: BTreeMap<String, Vec<u8>> =
        overrides.iter().map(|(path, value)| (path.clone(), value.get().as_bytes().to_vec())).collect();
    let ceremony = Ceremony {
        base,
        participants: &participants,
        balance: &balance,
        accounts: &accounts,
        overrides: &overrides,
    };
    assemble(ceremony).map_err(failed(TASK))
}

/// The genesis file as it was before. It is kept: a node that fetches what was uploaded here has another one in its place, and
/// when this is done again, nobody's account may be added twice.
fn base(home: &Path) -> Result<Genesis, Failure> {
    let kept = home.join(home::GENESIS_BASE);
    if let Some(file) = files::read_bytes(&kept).map_err(failed(TASK))? {
        return Genesis::parse(&file).map_err(failed(TASK));
    }
    let file = files::read_bytes(&home.join(home::GENESIS)).map_err(failed(TASK))?;
    let file = file.ok_or_else(|| {
        Failure::new(format_args!("{TASK}: there is no {}: generate-identity makes it", home::GENESIS))
    })?;
    let genesis = Genesis::parse(&file).map_err(failed(TASK))?;
    files::write(&kept, &file, 0o644).map_err(failed(TASK))?;
    Ok(genesis)
}

fn account(given: &CeremonyAccount) -> NewAccount {
    let vesting = given.vesting.as_ref().map(|vesting| Vesting {
        amount: vesting.amount.clone(),
        end_time: vesting.end_time,
        delayed: vesting.delayed,
    });
    NewAccount { address: given.address.clone(), balance: given.balance.clone(), vesting }
}
