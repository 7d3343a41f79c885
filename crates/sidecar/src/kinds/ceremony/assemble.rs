//! `assemble-and-upload-genesis`: assembles the genesis file of a new chain from the gentxs of its validators.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use api::sidecar_wire::{AssembleGenesis, CeremonyAccount, TaskType};
use chain::coin::Coins;
use chain::genesis::{
    Assembled, Ceremony, Genesis, NewAccount, Participant, Vesting, assemble, parse_node_id, render_peers,
};
use serde::Deserialize;
use serde_json::json;

use super::super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use super::failed;
use crate::bucket::BucketClient;
use crate::ledger::RawJson;
use crate::node::marker::Completion;
use crate::node::{files, home, marker};

const TASK: &str = "assemble-and-upload-genesis";

/// The largest accepted gentx or identity document.
const MAX_BYTES: u64 = 1 << 20;

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::AssembleAndUploadGenesis,
    locks: &[Resource::Genesis],
    deadline: Deadline::After(Duration::from_secs(1800)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

/// Overrides as raw JSON: amounts can exceed what a float holds.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawOverrides {
    overrides: BTreeMap<String, RawJson>,
}

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: AssembleGenesis = ctx.params()?;
    let params_json = json!(params);
    let home = ctx.node.home().to_owned();
    if let Some(completion) = marker::ASSEMBLE.read(&home).map_err(failed(TASK))? {
        return ctx.blocking(move || previous_result(&home, &completion, &params_json)).await;
    }
    check_params(&params)?;
    let settings = ctx.node.settings();
    let store = BucketClient::open(&settings.genesis).map_err(failed(TASK))?;
    let chain_id = settings.chain_id.clone();
    let (gentxs, peers) = download_artifacts(&store, &chain_id, &params).await?;
    let (dir, chain) = (home.clone(), chain_id.clone());
    let RawOverrides { overrides } = ctx.params()?;
    let assembled =
        ctx.blocking(move || assemble_genesis(&dir, &chain, &params, &gentxs, &overrides)).await?;
    // Peers first: a node starts as soon as it finds the genesis file.
    let upload = |name: &str, content: String| {
        let (store, key) = (&store, format!("{chain_id}/{name}"));
        async move { store.put_json(&key, content.into_bytes()).await.map_err(failed(TASK)) }
    };
    upload("peers.json", peers).await?;
    upload("genesis.json", assembled.file).await?;
    let mut result = json!({ "genesisHash": assembled.hash });
    if !assembled.warnings.is_empty() {
        result["warnings"] = json!(assembled.warnings);
    }
    ctx.blocking(move || {
        marker::ASSEMBLE.write(&home, &params_json, &result).map_err(failed(TASK))?;
        Ok(Some(result))
    })
    .await
}

/// Returns the result of the completed task. Upstream's marker has no hash: it is computed from the file, which upstream
/// assembled in place.
fn previous_result(home: &Path, completion: &Completion, params_json: &serde_json::Value) -> TaskOutcome {
    let mut result = completion.skipped_result(params_json);
    if *completion == Completion::Legacy {
        let hash = files::hash(&home.join(home::GENESIS)).map_err(failed(TASK))?;
        result["genesisHash"] = json!(hash);
    }
    Ok(Some(result))
}

fn check_params(params: &AssembleGenesis) -> Result<(), TaskError> {
    super::required(TASK, "accountBalance", &params.account_balance)?;
    super::required(TASK, "namespace", &params.namespace)?;
    super::check_name(TASK, "namespace", &params.namespace)?;
    if params.nodes.is_empty() {
        return Err(TaskError::new(format_args!("{TASK}: 'nodes' list is empty")));
    }
    for (index, node) in params.nodes.iter().enumerate() {
        super::required(TASK, &format!("nodes[{index}].name"), &node.name)?;
        super::check_name(TASK, &format!("nodes[{index}].name"), &node.name)?;
    }
    Ok(())
}

/// Downloads the gentx of every node and returns them with the peer list.
async fn download_artifacts(
    store: &BucketClient,
    chain_id: &str,
    params: &AssembleGenesis,
) -> Result<(Vec<Vec<u8>>, String), TaskError> {
    let (mut gentxs, mut ids) = (Vec::new(), Vec::new());
    for node in &params.nodes {
        let key = |name: &str| format!("{chain_id}/{}/{name}", node.name);
        gentxs.push(store.get(&key("gentx.json"), MAX_BYTES).await.map_err(failed(TASK))?);
        let identity = store.get(&key("identity.json"), MAX_BYTES).await.map_err(failed(TASK))?;
        ids.push((node.name.as_str(), parse_node_id(&node.name, &identity).map_err(failed(TASK))?));
    }
    Ok((gentxs, render_peers(&ids, &params.namespace)))
}

fn assemble_genesis(
    home: &Path,
    chain_id: &str,
    params: &AssembleGenesis,
    gentxs: &[Vec<u8>],
    overrides: &BTreeMap<String, RawJson>,
) -> Result<Assembled, TaskError> {
    let balance = Coins::parse(&params.account_balance)
        .map_err(|error| TaskError::new(format_args!("{TASK}: accountBalance: {error}")))?;
    let base = base_genesis(home)?;
    if base.chain_id() != chain_id {
        return Err(TaskError::new(format_args!(
            "{TASK}: the genesis file belongs to chain {}",
            base.chain_id()
        )));
    }
    let participants: Vec<Participant<'_>> = params
        .nodes
        .iter()
        .zip(gentxs)
        .map(|(node, gentx)| Participant { name: &node.name, gentx })
        .collect();
    let accounts: Vec<NewAccount> = params.accounts.iter().map(new_account).collect();
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

/// Returns the genesis file from before the assembly. A copy is kept: once a node fetches the assembled genesis, its original is
/// gone, and a second attempt would add accounts twice.
fn base_genesis(home: &Path) -> Result<Genesis, TaskError> {
    let copy = home.join(home::GENESIS_BASE);
    if let Some(file) = files::read_bytes(&copy).map_err(failed(TASK))? {
        return Genesis::parse(&file).map_err(failed(TASK));
    }
    let file = files::read_bytes(&home.join(home::GENESIS)).map_err(failed(TASK))?;
    let file = file.ok_or_else(|| {
        TaskError::new(format_args!("{TASK}: {} not found: run generate-identity first", home::GENESIS))
    })?;
    let genesis = Genesis::parse(&file).map_err(failed(TASK))?;
    files::write(&copy, &file, 0o644).map_err(failed(TASK))?;
    Ok(genesis)
}

fn new_account(account: &CeremonyAccount) -> NewAccount {
    let vesting = account.vesting.as_ref().map(|vesting| Vesting {
        amount: vesting.amount.clone(),
        end_time: vesting.end_time,
        delayed: vesting.delayed,
    });
    NewAccount { address: account.address.clone(), balance: account.balance.clone(), vesting }
}
