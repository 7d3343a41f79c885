//! A NetworkPolicy engine of a node. None can be built from the public registries, so that its binary is given by a variable;
//! kube-router is known to work.

use std::path::{Path, PathBuf};

use super::NodeLayout;
use super::namespaces::NodeNamespaces;
use crate::cluster::control_plane::ControlPlane;
use crate::error::Result;
use crate::process::{Process, Program};

/// Variable with the path of the engine.
const VARIABLE: &str = "OUTRIGGER_PEER_POLICY_ENGINE";

/// Returns the path of the engine, or prints how to provide one.
#[must_use]
pub fn from_environment() -> Option<PathBuf> {
    let program = std::env::var_os(VARIABLE).map(PathBuf::from);
    if program.is_none() {
        println!(
            "NO POLICY ENGINE: NetworkPolicies are not enforced. Set {VARIABLE} to a kube-router binary."
        );
    }
    program
}

/// Starts the engine on a node, as a firewall only.
pub(super) fn start(
    layout: &NodeLayout,
    namespaces: &NodeNamespaces,
    plane: &ControlPlane,
    program: &Path,
) -> Result<Process> {
    let user = plane.user("policy-engine", Some("system:masters"))?;
    let program = Program::new(layout.log_name("policy-engine"), program)
        .args([
            "--run-firewall=true",
            "--run-router=false",
            "--run-service-proxy=false",
            "--run-loadbalancer=false",
        ])
        .flag("hostname-override", &layout.name)
        .flag("kubeconfig", user.write_kubeconfig(layout.dir())?);
    namespaces.program(program).start(layout.site())
}
