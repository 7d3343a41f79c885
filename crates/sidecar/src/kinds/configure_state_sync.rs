//! `configure-state-sync`: chooses what state sync trusts.

use std::time::Duration;

use api::sidecar_wire::{ConfigureStateSync, TaskType};
use serde_json::{Map, Value, json};

use super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use crate::node::{config, home, marker, rpc};

/// How far behind the newest block the trusted one is: a snapshot of it exists by then.
const BEHIND: i64 = 2000;

/// As many peers as are asked when no witnesses are given.
const WITNESSES: usize = 2;

/// More than this many witnesses are not asked.
const MOST: usize = 16;

pub(super) const KIND: Kind = Kind {
    task: TaskType::ConfigureStateSync,
    changes: &[Resource::Config, Resource::Data],
    limit: Limit::Within(Duration::from_secs(600)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let params: ConfigureStateSync = work.params()?;
    let given = json!(params);
    let home = work.node.home();
    if let Some(done) = marker::STATE_SYNC.read(home).map_err(Failure::new)? {
        return Ok(Some(done.result(&given)));
    }
    if params.backfill_blocks < 0 {
        return Err(Failure::new("backfillBlocks must not be negative"));
    }
    let mut witnesses = reachable(&candidates(&work, &params).await?).await?;
    let (first, newest) = witnesses[0].clone();
    let height = match params.use_local_snapshot {
        true => newest_snapshot(&work).await?,
        false => (newest - BEHIND).max(1),
    };
    let asking =
        |error| Failure::new(format_args!("asking {first} for the block at height {height}: {error}"));
    let hash = rpc::block_hash(&url(&first), height).await.map_err(asking)?;
    if witnesses.len() == 1 {
        // State sync wants two; the same twice is accepted.
        witnesses.push(witnesses[0].clone());
    }
    let servers: Vec<String> = witnesses.into_iter().map(|(host, _)| host).collect();
    let values = settings(&params, height, &hash, &servers);
    let folder = home.to_owned();
    let result = json!({ "trustHeight": height, "trustHash": hash, "rpcServers": servers });
    work.blocking(move || {
        config::set(&folder, "statesync", values).map_err(Failure::new)?;
        marker::STATE_SYNC.write(&folder, &given, &result).map_err(Failure::new)?;
        Ok(Some(result))
    })
    .await
}

/// The lines of `[statesync]`.
fn settings(params: &ConfigureStateSync, height: i64, hash: &str, servers: &[String]) -> Map<String, Value> {
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

/// Who may be asked: `host:port` each.
async fn candidates(work: &Work, params: &ConfigureStateSync) -> Result<Vec<String>, Failure> {
    if !params.rpc_servers.is_empty() {
        let servers = params.rpc_servers.iter().take(MOST);
        return servers.map(|server| host(server)).collect();
    }
    let peers = config::persistent_peers(work.node.home()).map_err(Failure::new)?;
    let hosts = peers.split(',').filter_map(|peer| peer.trim().split_once('@')?.1.rsplit_once(':'));
    let found: Vec<String> = hosts.map(|(host, _)| format!("{host}:26657")).take(WITNESSES).collect();
    if found.is_empty() {
        return Err(Failure::new("no witnesses: give rpcServers, or peers first (discover-peers)"));
    }
    Ok(found)
}

fn host(server: &str) -> Result<String, Failure> {
    let bare =
        server.trim().trim_start_matches("http://").trim_start_matches("https://").trim_end_matches('/');
    let fits = !bare.is_empty()
        && bare.contains(':')
        && bare.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c));
    if fits {
        Ok(bare.to_owned())
    } else {
        Err(Failure::new(format_args!("rpcServers: {server:?} is no host:port")))
    }
}

/// Witnesses behind the port of HTTPS speak it.
fn url(host: &str) -> String {
    if host.ends_with(":443") { format!("https://{host}") } else { format!("http://{host}") }
}

/// Those that answer, each with its newest height: seid dies at a witness that does not.
async fn reachable(candidates: &[String]) -> Result<Vec<(String, i64)>, Failure> {
    let mut found = Vec::new();
    let mut last = String::new();
    for host in candidates {
        match rpc::status(&url(host), rpc::PATIENT).await {
            Ok(status) if status.height > 0 => found.push((host.clone(), status.height)),
            Ok(_) => last = format!("{host}: it has no block yet"),
            Err(error) => last = format!("{host}: {error}"),
        }
    }
    if found.is_empty() {
        return Err(Failure::new(format_args!("no witness answers; the last said {last}")));
    }
    Ok(found)
}

async fn newest_snapshot(work: &Work) -> Result<i64, Failure> {
    let snapshots = work.node.home().join(home::SNAPSHOTS);
    let heights = work.blocking(move || Ok(super::snapshot::heights(&snapshots))).await?;
    let newest = heights.last().and_then(|height| i64::try_from(*height).ok());
    newest.ok_or_else(|| Failure::new("useLocalSnapshot: there is none in data/snapshots"))
}
