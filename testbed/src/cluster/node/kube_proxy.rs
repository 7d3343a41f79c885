//! kube-proxy of a node: Services by nftables, in the network namespace of the node.

use std::net::Ipv4Addr;

use serde_json::json;

use super::NodeLayout;
use super::namespaces::NodeNamespaces;
use crate::cluster::control_plane::ControlPlane;
use crate::error::Result;
use crate::process::probe;
use crate::process::{Process, Program};

const HEALTH_PORT: u16 = 10256;

/// Starts kube-proxy.
pub(super) fn start(
    layout: &NodeLayout,
    namespaces: &NodeNamespaces,
    plane: &ControlPlane,
) -> Result<Process> {
    let user = plane.user("system:kube-proxy", None)?;
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": { "kubeconfig": user.write_kubeconfig(layout.dir())? },
        "hostnameOverride": layout.name,
        "healthzBindAddress": format!("{}:{HEALTH_PORT}", layout.address),
        // The conntrack limit is shared by the whole machine.
        "conntrack": { "maxPerCore": 0 },
    });
    let program = Program::new(layout.log_name("kube-proxy"), plane.kubernetes().program("kube-proxy"))
        .flag("config", layout.write("kube-proxy.json", &config.to_string())?);
    namespaces.program(program).start(layout.site())
}

/// Fails until kube-proxy has programmed the rules of all Services known at startup.
pub(super) async fn check_ready(node: Ipv4Addr) -> Result<()> {
    probe::http_ok((node, HEALTH_PORT).into(), "/healthz").await
}
