//! Network partitions between pods.

use std::net::IpAddr;

use crate::cluster::node::network_namespace;
use crate::error::Result;
use crate::process::tool;

/// The table that holds the rules. It is in the network namespace of a pod, and goes with it.
const TABLE: &str = "partition";

/// A pod that exchanges no packets with some addresses; healed on drop.
#[derive(Debug)]
pub struct Partition {
    namespace: String,
}

impl Partition {
    /// Cuts a pod, given by the ID of one of its containers (`containerd://...`), off from the addresses.
    pub fn start(container: &str, addresses: &[IpAddr]) -> Result<Self> {
        let partition = Self { namespace: network_namespace(container)? };
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        let addresses = format!("{{ {} }}", addresses.join(", "));
        partition.nft(&["add", "table", "ip", TABLE])?;
        for (hook, field) in [("input", "saddr"), ("output", "daddr")] {
            let chain = format!("{{ type filter hook {hook} priority 0; }}");
            partition.nft(&["add", "chain", "ip", TABLE, hook, &chain])?;
            partition.nft(&["add", "rule", "ip", TABLE, hook, "ip", field, &addresses, "drop"])?;
        }
        Ok(partition)
    }

    fn nft(&self, args: &[&str]) -> Result<()> {
        let namespace = format!("--net={}", self.namespace);
        tool::run("nsenter", [namespace.as_str(), "--", "nft"].iter().chain(args)).map(drop)
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        // Fails only if the pod is gone, and its namespace with it.
        let _ = self.nft(&["delete", "table", "ip", TABLE]);
    }
}
