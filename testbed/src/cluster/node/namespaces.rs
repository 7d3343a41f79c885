//! Namespaces of a node (network, mount, PID, UTS), shared by its programs. Killing the init process kills all containers,
//! and mounts are not visible outside, so neither can be left behind.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::NodeLayout;
use crate::cluster::cgroup;
use crate::cluster::lan;
use crate::cluster::site::Site;
use crate::error::{Error, Result};
use crate::harness::binaries;
use crate::harness::wait;
use crate::process::tool;
use crate::process::{Process, Program};

/// Timeout for the mounts of the init process.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// resolv.conf of the node, in its directory.
pub(super) const RESOLVER: &str = "resolv.conf";

/// Live namespaces of a node; removed with all their processes on drop.
#[derive(Debug)]
pub(super) struct NodeNamespaces {
    init: Process,
    pid: u32,
    number: u8,
    site: Arc<Site>,
}

impl NodeNamespaces {
    /// Creates the network and the cgroups of the node and starts its init process.
    pub(super) async fn start(layout: &NodeLayout) -> Result<Self> {
        let (site, number) = (layout.site(), layout.number());
        lan::attach_node(site.number(), number)?;
        cgroup::create_for_node(site.number(), number)?;
        let ready = layout.dir().join("ready");
        let dns = site.addresses().control_plane();
        let resolver = layout.write(RESOLVER, &format!("nameserver {dns}\n"))?;
        let init = Program::new(layout.log_name("init"), "unshare")
            // Killed with its parent, so that one signal kills the whole node.
            .args(["--pid", "--mount", "--uts", "--fork", "--mount-proc", "--kill-child=KILL", "--"])
            .arg(binaries::path("testbed-pod")?)
            .arg("init")
            .flag("hostname", &layout.name)
            .flag("state", layout.create_dir("state")?)
            .flag("logs", &layout.logs)
            .flag("resolver", resolver)
            .flag("ready", &ready)
            .in_netns(lan::node_netns(site.number(), number))
            .forks()
            .start(site)?;
        let pid = wait::until(format!("namespaces of {}", layout.name), READY_WITHIN, || async {
            init.check_alive()?;
            if ready.is_file() {
                init.pid()
            } else {
                Err(Error::Other("init has not finished its mounts".into()))
            }
        })
        .await?;
        Ok(Self { init, pid, number, site: site.clone() })
    }

    /// Configures a program to run in the namespaces.
    pub(super) fn program(&self, program: Program) -> Program {
        program.inside(self.pid)
    }

    /// Runs a program in the namespaces and returns its output.
    pub(super) fn run<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String> {
        tool::output_of(self.command(program, args))
    }

    /// Returns a command that runs in the namespaces.
    pub(super) fn command<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Command {
        let (marker, number) = self.site.marker();
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.pid))
            .args(["--net", "--mount", "--pid", "--uts", "--", program])
            .args(args)
            .env(marker, number);
        command
    }

    pub(super) fn check_alive(&self) -> Result<()> {
        self.init.check_alive()
    }

    fn remove(&self) -> Result<()> {
        self.init.kill()?;
        cgroup::remove_node(self.site.number(), self.number)?;
        lan::detach_node(self.site.number(), self.number)
    }
}

impl Drop for NodeNamespaces {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!(
                "testbed: removing node-{} failed: {error}; the removal of the site retries",
                self.number
            );
        }
    }
}
