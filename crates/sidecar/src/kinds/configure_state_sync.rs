//! `configure-state-sync`: selects the trusted block and the RPC servers for state sync. One server could make the node trust a chain
//! of its own, so two must agree on the block.

use std::time::Duration;

use api::sidecar_wire::{ConfigureStateSync, TaskType};
use serde_json::{Map, Value, json};

use super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::node::{config, home, marker, rpc};

/// How far the trusted block is behind the latest one: by then a snapshot of it exists.
const TRUST_LAG: i64 = 2000;

/// How many servers must agree on the trusted block.
const REQUIRED_WITNESSES: usize = 2;

/// The maximum number of peers that are asked when no RPC servers are given. Some may not serve RPC to others.
const MAX_PEERS: usize = 8;

/// The maximum number of RPC servers.
const MAX_WITNESSES: usize = 16;

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::ConfigureStateSync,
    locks: &[Resource::Config, Resource::Data],
    deadline: Deadline::After(Duration::from_secs(600)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: ConfigureStateSync = ctx.params()?;
    let params_json = json!(params);
    let home = ctx.node.home();
    if let Some(completed) = marker::STATE_SYNC.read(home).map_err(TaskError::new)? {
        return Ok(Some(completed.skipped_result(&params_json)));
    }
    if params.backfill_blocks < 0 {
        return Err(TaskError::new("backfillBlocks must not be negative"));
    }
    let responding = probe_all(&candidates(&ctx, &params).await?).await?;
    let (_, latest) = responding[0];
    let height = match params.use_local_snapshot {
        true => latest_snapshot_height(&ctx).await?,
        false => (latest - TRUST_LAG).max(1),
    };
    let (servers, hash) = agree_on_block(&responding, height).await?;
    let values = statesync_table(&params, height, &hash, &servers);
    let dir = home.to_owned();
    let result = json!({ "trustHeight": height, "trustHash": hash, "rpcServers": servers });
    ctx.blocking(move || {
        config::set(&dir, "statesync", values).map_err(TaskError::new)?;
        marker::STATE_SYNC.write(&dir, &params_json, &result).map_err(TaskError::new)?;
        Ok(Some(result))
    })
    .await
}

/// Returns the servers that have the block at a height, and its hash, on which they must agree.
async fn agree_on_block(
    responding: &[(String, i64)],
    height: i64,
) -> Result<(Vec<String>, String), TaskError> {
    let mut confirmed: Vec<(String, String)> = Vec::new();
    let mut last_error = String::new();
    for (host, _) in responding {
        match rpc::block_hash(&url(host), height).await {
            Ok(hash) => confirmed.push((host.clone(), hash)),
            Err(error) => last_error = format!("; last error: {host}: {error}"),
        }
    }
    if confirmed.len() < REQUIRED_WITNESSES {
        return Err(TaskError::new(format_args!(
            "only {} of {} RPC servers confirmed block {height}, and one server could make the node trust a forged chain: set \
             rpcServers to {REQUIRED_WITNESSES} or more servers, or add peers{last_error}",
            confirmed.len(),
            responding.len()
        )));
    }
    let (first, hash) = confirmed[0].clone();
    if let Some((other, _)) = confirmed.iter().find(|(_, other)| !other.eq_ignore_ascii_case(&hash)) {
        return Err(TaskError::new(format_args!(
            "{first} and {other} have different blocks at height {height}: one of them is on another chain or forges blocks; remove \
             it from rpcServers or the peers"
        )));
    }
    Ok((confirmed.into_iter().map(|(host, _)| host).collect(), hash))
}

/// Returns the keys of `[statesync]`.
fn statesync_table(
    params: &ConfigureStateSync,
    height: i64,
    hash: &str,
    servers: &[String],
) -> Map<String, Value> {
    let mut values = Map::from_iter([
        ("enable".to_owned(), json!(true)),
        ("trust-height".to_owned(), json!(height)),
        ("trust-hash".to_owned(), json!(hash)),
        ("rpc-servers".to_owned(), json!(servers.join(","))),
        ("use-local-snapshot".to_owned(), json!(params.use_local_snapshot)),
    ]);
    if !params.trust_period.is_empty() {
        values.insert("trust-period".into(), json!(params.trust_period));
    }
    if params.backfill_blocks > 0 {
        values.insert("backfill-blocks".into(), json!(params.backfill_blocks));
    }
    values
}

/// Returns the candidate RPC servers, each once as `host:port`.
async fn candidates(ctx: &TaskContext, params: &ConfigureStateSync) -> Result<Vec<String>, TaskError> {
    let mut found = Vec::new();
    for server in params.rpc_servers.iter().take(MAX_WITNESSES) {
        push_new(&mut found, parse_host(server)?);
    }
    if !params.rpc_servers.is_empty() {
        return Ok(found);
    }
    let peers = config::persistent_peers(ctx.node.home()).map_err(TaskError::new)?;
    let hosts = peers.split(',').filter_map(|peer| peer.trim().split_once('@')?.1.rsplit_once(':'));
    for (host, _) in hosts {
        push_new(&mut found, format!("{host}:26657"));
    }
    found.truncate(MAX_PEERS);
    if found.is_empty() {
        return Err(TaskError::new("no RPC servers: set rpcServers, or run discover-peers first"));
    }
    Ok(found)
}

/// The same server twice is one witness.
fn push_new(servers: &mut Vec<String>, server: String) {
    if !servers.iter().any(|known| known.eq_ignore_ascii_case(&server)) {
        servers.push(server);
    }
}

fn parse_host(server: &str) -> Result<String, TaskError> {
    let bare =
        server.trim().trim_start_matches("http://").trim_start_matches("https://").trim_end_matches('/');
    let is_valid = !bare.is_empty()
        && bare.contains(':')
        && bare.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c));
    if is_valid {
        Ok(bare.to_owned())
    } else {
        Err(TaskError::new(format_args!("invalid rpcServers entry {server:?}: expected host:port")))
    }
}

/// Servers on port 443 use HTTPS.
fn url(host: &str) -> String {
    if host.ends_with(":443") { format!("https://{host}") } else { format!("http://{host}") }
}

/// Returns the servers that respond, each with its latest height: seid exits if a configured server is unreachable.
async fn probe_all(candidates: &[String]) -> Result<Vec<(String, i64)>, TaskError> {
    let mut found = Vec::new();
    let mut last_error = String::new();
    for host in candidates {
        match rpc::status(&url(host), rpc::QUERY_TIMEOUT).await {
            Ok(status) if status.height > 0 => found.push((host.clone(), status.height)),
            Ok(_) => last_error = format!("{host}: no block yet"),
            Err(error) => last_error = format!("{host}: {error}"),
        }
    }
    if found.is_empty() {
        return Err(TaskError::new(format_args!("no RPC server responded; last error: {last_error}")));
    }
    Ok(found)
}

async fn latest_snapshot_height(ctx: &TaskContext) -> Result<i64, TaskError> {
    let snapshots = ctx.node.home().join(home::SNAPSHOTS);
    let heights = ctx.blocking(move || Ok(super::snapshot::heights(&snapshots))).await?;
    let latest = heights.last().and_then(|height| i64::try_from(*height).ok());
    latest.ok_or_else(|| TaskError::new("useLocalSnapshot: no snapshot in data/snapshots"))
}
