//! kube-proxy of a node: service addresses, by nftables in the node's own network.

use std::net::Ipv4Addr;

use serde_json::json;

use super::Place;
use super::machine::Machine;
use crate::cluster::control_plane::ControlPlane;
use crate::error::Result;
use crate::process::probe;
use crate::process::{Process, Program};

const HEALTH_PORT: u16 = 10256;

/// Starts it.
pub(super) fn start(place: &Place, machine: &Machine, plane: &ControlPlane) -> Result<Process> {
    let user = plane.user("system:kube-proxy", None)?;
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": { "kubeconfig": user.write_kubeconfig(place.dir())? },
        "hostnameOverride": place.name,
        "healthzBindAddress": format!("{}:{HEALTH_PORT}", place.address),
        // The limit is the whole machine's: leave it as it is.
        "conntrack": { "maxPerCore": 0 },
    });
    let program = Program::new(place.log_name("kube-proxy"), plane.kubernetes().program("kube-proxy"))
        .flag("config", place.write("kube-proxy.json", &config.to_string())?);
    machine.program(program).start(place.site())
}

/// Fails until the rules of every service known at the start are in place.
pub(super) async fn check_ready(node: Ipv4Addr) -> Result<()> {
    probe::http_ok((node, HEALTH_PORT).into(), "/healthz").await
}
