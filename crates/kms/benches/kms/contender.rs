//! The reporters that are measured: ours, and the one that it stands in for.

use std::path::PathBuf;
use std::time::Duration;

use testbed::Error;
use testbed::bench::{digest, released, version};
use testbed::process::{Process, Program};

use crate::world::{Object, World};

/// The peer takes sockets of one folder only. It gets a /run of its own, with nothing in it but that.
const WITH_SOCKETS: &str = "mount -t tmpfs tmpfs /run && mkdir /run/kmsplugin && mount --bind \"$0\" /run/kmsplugin \
    && exec \"$@\"";

/// A reporter that is measured.
pub struct Contender {
    /// Whose it is: `ours` or `peer`.
    pub name: &'static str,
    /// Its version, or what else tells one build from another.
    pub version: String,
    program: PathBuf,
}

impl Contender {
    /// Ours, as it is released.
    pub fn ours() -> Result<Self, Error> {
        let program = released()?;
        Ok(Self { name: "ours", version: version(&program)?, program })
    }

    /// The one that `OUTRIGGER_PEER_REPORTER` names, if it does: a binary of the operator that it is a subcommand of.
    pub fn peer() -> Result<Option<Self>, Error> {
        let Some(program) = std::env::var_os("OUTRIGGER_PEER_REPORTER").map(PathBuf::from) else {
            return Ok(None);
        };
        Ok(Some(Self { name: "peer", version: digest(&program)?, program }))
    }

    /// Starts one for a node. Both are given the same flags; ours, what it would guess otherwise.
    pub fn start(
        &self,
        world: &World,
        node: &str,
        interval: Duration,
        object: Object,
        on: &str,
    ) -> Result<Process, Error> {
        let name = format!("reporter-{node}");
        let program = if self.name == "ours" {
            let folder = world.sockets();
            Program::new(name, &self.program)
                .arg("kms-reporter")
                .flag("kms-sockets", format!("unix://{}/kms-1.sock", folder.display()))
                .flag("socket-dir", folder)
                .flag("target", object.target())
                .flag("target-name", on)
                .flag("publish", object.form())
        } else {
            Program::new(name, "/usr/bin/unshare")
                .args(["--mount", "--", "/bin/sh", "-c", WITH_SOCKETS])
                .arg(world.sockets())
                .arg(&self.program)
                .arg("kms-health-reporter")
                .flag("kms-sockets", "unix:///var/run/kmsplugin/kms-1.sock")
        };
        program
            .flag("interval", format!("{}ms", interval.as_millis()))
            .flag("node-name", node)
            .flag("kubeconfig", world.kubeconfig())
            .start(&world.site)
    }
}
