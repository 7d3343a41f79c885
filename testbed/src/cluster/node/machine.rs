//! The box that a node's programs share: a network, a mount, a process and a host-name namespace. Killing its first
//! process ends every container, and its mounts are seen nowhere else, so neither can be left behind.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::Place;
use crate::cluster::cgroup;
use crate::cluster::lan;
use crate::cluster::site::Site;
use crate::error::{Error, Result};
use crate::harness::binaries;
use crate::harness::wait;
use crate::process::tool;
use crate::process::{Process, Program};

/// How long the first process may take for its mounts.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// The file, in the node's folder, that says who is asked for names.
pub(super) const RESOLVER: &str = "resolv.conf";

/// A running box; it and all within end when dropped.
#[derive(Debug)]
pub(super) struct Machine {
    init: Process,
    pid: u32,
    number: u8,
    site: Arc<Site>,
}

impl Machine {
    /// Makes the node's network and cgroups, and starts the first process of the box.
    pub(super) async fn start(place: &Place) -> Result<Self> {
        let (site, number) = (place.site(), place.number());
        lan::attach_node(site.number(), number)?;
        cgroup::create_for_node(site.number(), number)?;
        let ready = place.dir().join("ready");
        let dns = site.addresses().control_plane();
        let resolver = place.write(RESOLVER, &format!("nameserver {dns}\n"))?;
        let init = Program::new(place.log_name("init"), "unshare")
            // Killed with its parent, which is how the whole box goes with one signal.
            .args(["--pid", "--mount", "--uts", "--fork", "--mount-proc", "--kill-child=KILL", "--"])
            .arg(binaries::path("testbed-pod")?)
            .arg("init")
            .flag("hostname", &place.name)
            .flag("state", place.folder("state")?)
            .flag("logs", &place.logs)
            .flag("resolver", resolver)
            .flag("ready", &ready)
            .in_netns(lan::node_netns(site.number(), number))
            .forks()
            .start(site)?;
        let pid = wait::until(format!("the box of {}", place.name), READY_WITHIN, || async {
            init.check_alive()?;
            if ready.is_file() {
                init.pid()
            } else {
                Err(Error::Refused("its first process is not done with its mounts".into()))
            }
        })
        .await?;
        Ok(Self { init, pid, number, site: site.clone() })
    }

    /// A program that runs inside, once started.
    pub(super) fn program(&self, program: Program) -> Program {
        program.inside(self.pid)
    }

    /// Runs a program inside to its end.
    pub(super) fn run<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String> {
        tool::output_of(self.command(program, args))
    }

    /// A program that is to run inside.
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

impl Drop for Machine {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!(
                "testbed: node-{} could not be removed: {error}; the site's removal tries again",
                self.number
            );
        }
    }
}
