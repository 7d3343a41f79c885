//! `discover-peers`: finds peers and writes them to the node's config.

use std::time::Duration;

use api::sidecar_wire::{DiscoverPeers, PeerDiscovery, TaskType};
use chain::config::is_peer_address;
use serde_json::json;

use super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::node::{config, rpc};

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::DiscoverPeers,
    locks: &[Resource::Config],
    deadline: Deadline::After(Duration::from_secs(600)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: DiscoverPeers = ctx.params()?;
    if params.sources.is_empty() {
        return Err(TaskError::new("at least one source is required"));
    }
    let mut peers: Vec<String> = Vec::new();
    for (index, source) in params.sources.iter().enumerate() {
        let found = resolve_source(source)
            .await
            .map_err(|error| TaskError::new(format_args!("source {index}: {error}")))?;
        for peer in found {
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
    }
    set_persistent_peers(&ctx, &peers).await?;
    Ok(Some(json!({ "peers": peers.len() })))
}

async fn resolve_source(source: &PeerDiscovery) -> Result<Vec<String>, String> {
    match source {
        PeerDiscovery::Ec2Tags { .. } => {
            Err("ec2Tags is not supported by this build: use dnsEndpoints or static".into())
        }
        PeerDiscovery::Static { addresses } if addresses.is_empty() => Err("addresses is required".into()),
        PeerDiscovery::Static { addresses } => addresses.iter().map(|peer| parse_peer(peer)).collect(),
        PeerDiscovery::DnsEndpoints { endpoints } if endpoints.is_empty() => {
            Err("endpoints is required".into())
        }
        PeerDiscovery::DnsEndpoints { endpoints } => query_endpoints(endpoints).await,
    }
}

/// Skips unreachable endpoints; fails only if none responds.
async fn query_endpoints(hosts: &[String]) -> Result<Vec<String>, String> {
    let mut peers = Vec::new();
    let mut last_error = String::new();
    for host in hosts {
        let is_host =
            !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c));
        if !is_host {
            return Err(format!("invalid endpoint {host:?}: expected a host name"));
        }
        match rpc::status(&format!("http://{host}:26657"), rpc::QUERY_TIMEOUT).await {
            Ok(status) => match parse_peer(&format!("{}@{host}:26656", status.node_id)) {
                Ok(peer) => peers.push(peer),
                Err(_) => last_error = format!("{host}: no valid node ID in its status"),
            },
            Err(error) => last_error = format!("{host}: {error}"),
        }
    }
    if peers.is_empty() {
        Err(format!("no endpoint reported its node ID; last error: {last_error}"))
    } else {
        Ok(peers)
    }
}

/// Accepts what seid would accept, and nothing that contains another entry: the config holds all peers in one string.
fn parse_peer(peer: &str) -> Result<String, String> {
    if is_peer_address(peer) {
        return Ok(peer.to_owned());
    }
    Err(format!("invalid peer {peer:?}: expected <node id>@<host>:<port>, with 40 hexadecimal digits"))
}

/// Writes the persistent peers of the node.
pub(super) async fn set_persistent_peers(ctx: &TaskContext, peers: &[String]) -> Result<(), TaskError> {
    let (home, peers) = (ctx.node.home().to_owned(), peers.to_vec());
    ctx.blocking(move || config::set_persistent_peers(&home, &peers).map_err(TaskError::new)).await
}
