//! The reporters that are measured: ours, and the one that it stands in for.

use std::time::Duration;

use testbed::Error;
use testbed::bench::Build;
use testbed::process::{Process, Program};

use crate::world::{Object, World};

/// The peer takes sockets of one folder only. It gets a /run of its own, with nothing in it but that.
const WITH_SOCKETS: &str = "mount -t tmpfs tmpfs /run && mkdir /run/kmsplugin && mount --bind \"$0\" /run/kmsplugin \
    && exec \"$@\"";

/// Starts one for a node. Both are given the same flags; ours, what it would guess otherwise.
pub fn start(
    contender: &Build,
    world: &World,
    node: &str,
    interval: Duration,
    object: Object,
    on: &str,
) -> Result<Process, Error> {
    let name = format!("reporter-{node}");
    let program = if contender.name == "ours" {
        let folder = world.sockets();
        Program::new(name, &contender.program)
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
            .arg(&contender.program)
            .arg("kms-health-reporter")
            .flag("kms-sockets", "unix:///var/run/kmsplugin/kms-1.sock")
    };
    program
        .flag("interval", format!("{}ms", interval.as_millis()))
        .flag("node-name", node)
        .flag("kubeconfig", world.kubeconfig())
        .start(&world.site)
}
