//! The network of a site: a network namespace with the control plane and a bridge, to which the host and the nodes are
//! attached. Traffic between pods is forwarded in that namespace, so the forwarding and firewall settings of the machine
//! are neither needed nor changed, and every port is free in it.

use std::path::Path;

use crate::cluster::address::Addresses;
use crate::error::Result;
use crate::process::tool;

/// Bridge in the namespace of the site.
const BRIDGE: &str = "lan0";

/// Name of the namespace of the control plane, and of the host end of the veth pair into it.
pub(crate) fn netns_of(site: u8) -> String {
    format!("outrigger-{site}")
}

/// Name of the namespace of a node.
pub(crate) fn node_netns(site: u8, node: u8) -> String {
    format!("outrigger-{site}-node-{node}")
}

/// Lists the existing namespaces of a site.
pub(crate) fn list_netns(site: u8) -> Vec<String> {
    let own = netns_of(site);
    let nodes = format!("{own}-");
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| *name == own || name.starts_with(&nodes))
        .collect()
}

/// Returns true if the host end of the veth pair exists.
pub(crate) fn link_exists(site: u8) -> bool {
    Path::new("/sys/class/net").join(netns_of(site)).exists()
}

/// Creates the network of a site.
pub(crate) fn create(site: u8) -> Result<()> {
    let plan = Addresses::of_site(site);
    let name = netns_of(site);
    ip(&["netns", "add", &name])?;
    ip(&["-n", &name, "link", "set", "lo", "up"])?;
    // A bridge without a fixed MAC address takes the lowest one of its ports, which changes with the nodes. Stale
    // neighbor entries would then cut off the API server for up to a minute.
    ip(&["-n", &name, "link", "add", BRIDGE, "address", &mac_address(site, 0), "type", "bridge"])?;
    ip(&["-n", &name, "addr", "add", &format!("{}/24", plan.control_plane()), "dev", BRIDGE])?;
    ip(&["-n", &name, "link", "set", BRIDGE, "up"])?;
    ip(&["link", "add", &name, "type", "veth", "peer", "name", "host0", "netns", &name])?;
    ip(&["-n", &name, "link", "set", "host0", "master", BRIDGE, "up"])?;
    ip(&["addr", "add", &format!("{}/24", plan.host()), "dev", &name])?;
    ip(&["link", "set", &name, "up"])?;
    ip(&["route", "add", &plan.all(), "via", &plan.control_plane().to_string(), "dev", &name])?;
    enable_forwarding(&name)
}

/// Creates the namespace of a node, attaches it to the LAN and adds the route to its pods.
pub(crate) fn attach_node(site: u8, node: u8) -> Result<()> {
    let plan = Addresses::of_site(site);
    let lan = netns_of(site);
    let name = node_netns(site, node);
    let port = port_of(node);
    let address = plan.node(node).to_string();
    ip(&["netns", "add", &name])?;
    ip(&["-n", &name, "link", "set", "lo", "up"])?;
    // The MAC address depends on the node number only: neighbors cache the one of a removed node for a minute, and
    // would not reach the next node with the same number.
    let mac = mac_address(site, node);
    let veth = ["type", "veth", "peer", "name", "eth0", "address", &mac, "netns", &name];
    ip(&[&["-n", &lan, "link", "add", &port][..], &veth].concat())?;
    ip(&["-n", &lan, "link", "set", &port, "master", BRIDGE, "up"])?;
    ip(&["-n", &name, "addr", "add", &format!("{address}/24"), "dev", "eth0"])?;
    ip(&["-n", &name, "link", "set", "eth0", "up"])?;
    ip(&["-n", &name, "route", "add", "default", "via", &plan.control_plane().to_string()])?;
    ip(&["-n", &lan, "route", "replace", &plan.pods(node), "via", &address])?;
    enable_forwarding(&name)
}

/// Removes the veth pair and the namespace of a node, including its firewall tables.
pub(crate) fn detach_node(site: u8, node: u8) -> Result<()> {
    // The kernel removes the interfaces of a deleted namespace asynchronously, and the next node needs the port.
    ip(&["-n", &netns_of(site), "link", "del", &port_of(node)])?;
    ip(&["netns", "del", &node_netns(site, node)])
}

/// Removes what is left of the namespaces and the veth pair of a site.
pub(crate) fn remove(site: u8) -> Result<()> {
    for name in list_netns(site) {
        ip(&["netns", "del", &name])?;
    }
    // The kernel also removes the host end of the pair shortly after the namespace; this call may find it gone.
    if link_exists(site) {
        let _ = ip(&["link", "del", &netns_of(site)]);
    }
    Ok(())
}

/// Locally administered MAC address of a node; 0 is the bridge.
fn mac_address(site: u8, node: u8) -> String {
    format!("02:00:00:00:{site:02x}:{node:02x}")
}

/// Bridge port of a node.
fn port_of(node: u8) -> String {
    format!("node{node}")
}

fn enable_forwarding(netns: &str) -> Result<()> {
    let namespace = format!("--net=/run/netns/{netns}");
    tool::run("nsenter", [&namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1"]).map(drop)
}

fn ip(args: &[&str]) -> Result<()> {
    tool::run("ip", args).map(drop)
}
