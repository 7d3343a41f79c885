//! The network of a site: a namespace of its own that holds the control plane and a bridge, with the host and the nodes
//! attached. Forwarding between pods happens in that namespace, so the machine's own forwarding switch and firewall are
//! neither needed nor touched, and every port is free in it.

use std::path::Path;

use crate::cluster::address::Addresses;
use crate::error::Result;
use crate::process::tool;

/// The bridge inside the site's namespace.
const BRIDGE: &str = "lan0";

/// Name of the control plane's namespace, and of the host's end of the cable into it.
pub(crate) fn netns_of(site: u8) -> String {
    format!("outrigger-{site}")
}

/// Name of a node's namespace.
pub(crate) fn node_netns(site: u8, node: u8) -> String {
    format!("outrigger-{site}-node-{node}")
}

/// Every namespace that a site has at the moment.
pub(crate) fn netns_present(site: u8) -> Vec<String> {
    let own = netns_of(site);
    let nodes = format!("{own}-");
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| *name == own || name.starts_with(&nodes))
        .collect()
}

/// True while the host's end of the cable exists.
pub(crate) fn link_present(site: u8) -> bool {
    Path::new("/sys/class/net").join(netns_of(site)).exists()
}

/// Lays the site's network.
pub(crate) fn create(site: u8) -> Result<()> {
    let plan = Addresses::of_site(site);
    let name = netns_of(site);
    ip(&["netns", "add", &name])?;
    ip(&["-n", &name, "link", "set", "lo", "up"])?;
    // A bridge without an address of its own takes the lowest of its ports', which changes as nodes come and go: whoever
    // remembers the former one loses the API server for up to a minute.
    ip(&["-n", &name, "link", "add", BRIDGE, "address", &card(site, 0), "type", "bridge"])?;
    ip(&["-n", &name, "addr", "add", &format!("{}/24", plan.control_plane()), "dev", BRIDGE])?;
    ip(&["-n", &name, "link", "set", BRIDGE, "up"])?;
    ip(&["link", "add", &name, "type", "veth", "peer", "name", "host0", "netns", &name])?;
    ip(&["-n", &name, "link", "set", "host0", "master", BRIDGE, "up"])?;
    ip(&["addr", "add", &format!("{}/24", plan.host()), "dev", &name])?;
    ip(&["link", "set", &name, "up"])?;
    ip(&["route", "add", &plan.all(), "via", &plan.control_plane().to_string(), "dev", &name])?;
    forward(&name)
}

/// Attaches a node's namespace to the LAN and teaches the router its pods.
pub(crate) fn attach_node(site: u8, node: u8) -> Result<()> {
    let plan = Addresses::of_site(site);
    let lan = netns_of(site);
    let name = node_netns(site, node);
    let port = port_of(node);
    let address = plan.node(node).to_string();
    ip(&["netns", "add", &name])?;
    ip(&["-n", &name, "link", "set", "lo", "up"])?;
    // Always the same card: neighbours remember that of a node that was removed for a minute, and would not reach the one
    // that has its number after it.
    let card = card(site, node);
    let cable = ["type", "veth", "peer", "name", "eth0", "address", &card, "netns", &name];
    ip(&[&["-n", &lan, "link", "add", &port][..], &cable].concat())?;
    ip(&["-n", &lan, "link", "set", &port, "master", BRIDGE, "up"])?;
    ip(&["-n", &name, "addr", "add", &format!("{address}/24"), "dev", "eth0"])?;
    ip(&["-n", &name, "link", "set", "eth0", "up"])?;
    ip(&["-n", &name, "route", "add", "default", "via", &plan.control_plane().to_string()])?;
    ip(&["-n", &lan, "route", "replace", &plan.pods(node), "via", &address])?;
    forward(&name)
}

/// Removes a node's cable and namespace; its firewall tables go with it.
pub(crate) fn detach_node(site: u8, node: u8) -> Result<()> {
    // The kernel removes what a namespace held some time after the namespace, and the next node needs the port.
    ip(&["-n", &netns_of(site), "link", "del", &port_of(node)])?;
    ip(&["netns", "del", &node_netns(site, node)])
}

/// Removes the namespaces and the cable of a site, whatever of them is left.
pub(crate) fn remove(site: u8) -> Result<()> {
    for name in netns_present(site) {
        ip(&["netns", "del", &name])?;
    }
    // Removing a namespace ends its interfaces a moment later, and the host's end with them; asking twice is harmless.
    if link_present(site) {
        let _ = ip(&["link", "del", &netns_of(site)]);
    }
    Ok(())
}

/// The hardware address of a node's card, or with 0 that of the bridge; locally administered.
fn card(site: u8, node: u8) -> String {
    format!("02:00:00:00:{site:02x}:{node:02x}")
}

/// A node's port of the bridge.
fn port_of(node: u8) -> String {
    format!("node{node}")
}

fn forward(netns: &str) -> Result<()> {
    let namespace = format!("--net=/run/netns/{netns}");
    tool::run("nsenter", [&namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1"]).map(drop)
}

fn ip(args: &[&str]) -> Result<()> {
    tool::run("ip", args).map(drop)
}
