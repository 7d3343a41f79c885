//! `discover-peers`: finds peers, and writes them into the node's settings.

use std::time::Duration;

use api::sidecar_wire::{DiscoverPeers, PeerDiscovery, TaskType};
use serde_json::json;

use super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use crate::node::{config, rpc};

pub(super) const KIND: Kind = Kind {
    task: TaskType::DiscoverPeers,
    changes: &[Resource::Config],
    limit: Limit::Within(Duration::from_secs(600)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let params: DiscoverPeers = work.params()?;
    if params.sources.is_empty() {
        return Err(Failure::new("at least one source is required"));
    }
    let mut peers: Vec<String> = Vec::new();
    for (index, source) in params.sources.iter().enumerate() {
        let found = of(source).await.map_err(|why| Failure::new(format_args!("source {index}: {why}")))?;
        for peer in found {
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
    }
    set(&work, &peers).await?;
    Ok(Some(json!({ "peers": peers.len() })))
}

async fn of(source: &PeerDiscovery) -> Result<Vec<String>, String> {
    match source {
        PeerDiscovery::Ec2Tags { .. } => {
            Err("ec2Tags is not supported by this build: use dnsEndpoints or static".into())
        }
        PeerDiscovery::Static { addresses } if addresses.is_empty() => Err("addresses is required".into()),
        PeerDiscovery::Static { addresses } => addresses.iter().map(|peer| checked(peer)).collect(),
        PeerDiscovery::DnsEndpoints { endpoints } if endpoints.is_empty() => {
            Err("endpoints is required".into())
        }
        PeerDiscovery::DnsEndpoints { endpoints } => resolve(endpoints).await,
    }
}

/// Who is not reached is left out; if nobody is, something is wrong.
async fn resolve(hosts: &[String]) -> Result<Vec<String>, String> {
    let mut peers = Vec::new();
    let mut last = String::new();
    for host in hosts {
        let is_host =
            !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c));
        if !is_host {
            return Err(format!("{host:?} is no host name"));
        }
        match rpc::status(&format!("http://{host}:26657"), rpc::PATIENT).await {
            Ok(status) if !status.node_id.is_empty() => {
                peers.push(format!("{}@{host}:26656", status.node_id))
            }
            Ok(_) => last = format!("{host}: its status names no node"),
            Err(error) => last = format!("{host}: {error}"),
        }
    }
    if peers.is_empty() {
        Err(format!("no endpoint told who it is; the last said {last}"))
    } else {
        Ok(peers)
    }
}

/// The list is one text with commas: what holds one would be two peers.
fn checked(peer: &str) -> Result<String, String> {
    let odd = |c: char| c == ',' || c.is_whitespace() || c.is_control();
    if peer.is_empty() || peer.contains(odd) {
        return Err(format!("{peer:?} is no peer: use nodeId@host:port"));
    }
    Ok(peer.to_owned())
}

/// Writes the peers of the node.
pub(super) async fn set(work: &Work, peers: &[String]) -> Result<(), Failure> {
    let (home, peers) = (work.node.home().to_owned(), peers.to_vec());
    work.blocking(move || config::set_persistent_peers(&home, &peers).map_err(Failure::new)).await
}
