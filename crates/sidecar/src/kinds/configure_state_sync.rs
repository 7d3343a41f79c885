//! `configure-state-sync`: selects the trusted block and the RPC servers for state sync. One server could make the node trust a chain
//! of its own, so two must agree on the block. Servers on the same host, or with the same node ID, count as one.

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
    let probed = probe_all(&candidates(&ctx, &params).await?).await?;
    let height = match params.use_local_snapshot {
        true => latest_snapshot_height(&ctx).await?,
        false => (median_height(&probed.witnesses) - TRUST_LAG).max(1),
    };
    let (servers, hash) = agree_on_block(probed, height).await?;
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

/// A server that responds. No other one has its host or its node ID: whoever controls one of them controls both.
#[derive(Debug, PartialEq, Eq)]
struct Witness {
    server: String,
    node_id: String,
    height: i64,
}

/// The witnesses among the candidates, and why the last of the other candidates is none.
#[derive(Debug, Default)]
struct Probed {
    witnesses: Vec<Witness>,
    last_error: Option<String>,
}

impl Probed {
    /// Returns why a server is not another witness, if its host shows that.
    fn check_host(&self, server: &str) -> Result<(), String> {
        self.check(server, "host", |known| host_of(&known.server).eq_ignore_ascii_case(host_of(server)))
    }

    fn add(&mut self, server: &str, status: &rpc::Status) -> Result<(), String> {
        if status.height <= 0 {
            return Err(format!("{server}: no block yet"));
        }
        if status.node_id.is_empty() {
            return Err(format!("{server}: it reports no node ID"));
        }
        self.check(server, "node ID", |known| known.node_id.eq_ignore_ascii_case(&status.node_id))?;
        let (server, node_id) = (server.to_owned(), status.node_id.clone());
        self.witnesses.push(Witness { server, node_id, height: status.height });
        Ok(())
    }

    fn check(&self, server: &str, what: &str, is_same: impl Fn(&Witness) -> bool) -> Result<(), String> {
        match self.witnesses.iter().find(|known| is_same(known)) {
            None => Ok(()),
            Some(known) => Err(format!("{server}: it has the same {what} as {}", known.server)),
        }
    }
}

/// Returns the host of `host:port`.
fn host_of(server: &str) -> &str {
    server.rsplit_once(':').map_or(server, |(host, _)| host).trim_end_matches('.')
}

/// Returns the median of the heights, and the lower one of two: a minority of the witnesses cannot choose it.
fn median_height(witnesses: &[Witness]) -> i64 {
    let mut heights: Vec<i64> = witnesses.iter().map(|witness| witness.height).collect();
    heights.sort_unstable();
    heights.get(heights.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// Returns the servers that have the block at a height, and its hash, on which they must agree.
async fn agree_on_block(probed: Probed, height: i64) -> Result<(Vec<String>, String), TaskError> {
    let Probed { witnesses, mut last_error } = probed;
    let mut confirmed: Vec<(String, String)> = Vec::new();
    for Witness { server, .. } in &witnesses {
        match rpc::block_hash(&url(server), height).await {
            Ok(hash) => confirmed.push((server.clone(), hash)),
            Err(error) => last_error = Some(format!("{server}: {error}")),
        }
    }
    if confirmed.len() < REQUIRED_WITNESSES {
        let last_error = last_error.map(|error| format!("; last error: {error}")).unwrap_or_default();
        return Err(TaskError::new(format_args!(
            "only {} of {} RPC servers confirmed block {height}, and one server could make the node trust a forged chain: set \
             rpcServers to {REQUIRED_WITNESSES} or more servers on different hosts, or add peers{last_error}",
            confirmed.len(),
            witnesses.len()
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

/// Adds a server that is not listed yet.
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

/// Returns the servers that respond: seid exits if a configured server is unreachable.
async fn probe_all(candidates: &[String]) -> Result<Probed, TaskError> {
    let mut probed = Probed::default();
    for server in candidates {
        let checked = match probed.check_host(server) {
            Ok(()) => match rpc::status(&url(server), rpc::QUERY_TIMEOUT).await {
                Ok(status) => probed.add(server, &status),
                Err(error) => Err(format!("{server}: {error}")),
            },
            Err(same_host) => Err(same_host),
        };
        if let Err(error) = checked {
            probed.last_error = Some(error);
        }
    }
    if probed.witnesses.is_empty() {
        let last_error = probed.last_error.unwrap_or_default();
        return Err(TaskError::new(format_args!("no RPC server responded; last error: {last_error}")));
    }
    Ok(probed)
}

async fn latest_snapshot_height(ctx: &TaskContext) -> Result<i64, TaskError> {
    let snapshots = ctx.node.home().join(home::SNAPSHOTS);
    let heights = ctx.blocking(move || Ok(super::snapshot::heights(&snapshots))).await?;
    let latest = heights.last().and_then(|height| i64::try_from(*height).ok());
    latest.ok_or_else(|| TaskError::new("useLocalSnapshot: no snapshot in data/snapshots"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(id: &str, height: i64) -> rpc::Status {
        rpc::Status {
            node_id: id.into(),
            height,
            latest_block_time: None,
            catching_up: false,
            voting_power: 0,
        }
    }

    fn witnesses(heights: &[i64]) -> Vec<Witness> {
        let witness =
            |height: &i64| Witness { server: String::new(), node_id: String::new(), height: *height };
        heights.iter().map(witness).collect()
    }

    #[test]
    fn one_host_or_node_id_is_one_witness() {
        let mut probed = Probed::default();
        for (server, id, error) in [
            ("a:26657", "01", ""),
            ("a:443", "02", "a:443: it has the same host as a:26657"),
            ("A.:443", "02", "A.:443: it has the same host as a:26657"),
            ("b:26657", "01", "b:26657: it has the same node ID as a:26657"),
            ("b:26657", "", "b:26657: it reports no node ID"),
            ("b:26657", "0A", ""),
            ("c:26657", "0a", "c:26657: it has the same node ID as b:26657"),
            ("[fd00::1]:26657", "03", ""),
            ("[fd00::1]:443", "04", "[fd00::1]:443: it has the same host as [fd00::1]:26657"),
            ("[fd00::2]:26657", "04", ""),
        ] {
            let added = probed.check_host(server).and_then(|()| probed.add(server, &status(id, 7)));
            assert_eq!(added.err().unwrap_or_default(), error, "{server} {id}");
        }
        assert_eq!(probed.add("d:1", &status("05", 0)), Err("d:1: no block yet".into()));
        assert_eq!(probed.witnesses.len(), 4);
    }

    #[test]
    fn minority_of_witnesses_does_not_choose_the_height() {
        for (heights, median) in [
            (&[5000][..], 5000),
            (&[5000, 1], 1),
            (&[9_000_000, 5000], 5000),
            (&[9_000_000, 5000, 5001], 5001),
            (&[1, 5000, 5001], 5000),
            (&[9_000_000, 1, 5000, 5001, 9_000_000], 5001),
        ] {
            assert_eq!(median_height(&witnesses(heights)), median, "{heights:?}");
        }
    }
}
