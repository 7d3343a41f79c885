//! The measured reporters: ours and the upstream one.

use std::time::Duration;

use testbed::Error;
use testbed::bench::Build;
use testbed::process::{Process, Program};

use crate::environment::{Environment, Object};

/// The peer accepts sockets of one directory only. It gets its own /run with just that directory.
const WITH_SOCKETS: &str = "mount -t tmpfs tmpfs /run && mkdir /run/kmsplugin && mount --bind \"$0\" /run/kmsplugin \
    && exec \"$@\"";

/// Starts a reporter for a node. Both get the same flags, and ours the target and format that the peer has built in.
pub fn start(
    contender: &Build,
    environment: &Environment,
    node: &str,
    interval: Duration,
    object: Object,
    object_name: &str,
) -> Result<Process, Error> {
    let name = format!("reporter-{node}");
    let program = if contender.name == "ours" {
        let dir = environment.sockets();
        Program::new(name, &contender.program)
            .arg("kms-reporter")
            .flag("kms-sockets", format!("unix://{}/kms-1.sock", dir.display()))
            .flag("socket-dir", dir)
            .flag("target", object.target())
            .flag("target-name", object_name)
            .flag("publish", object.form())
    } else {
        Program::new(name, "/usr/bin/unshare")
            .args(["--mount", "--", "/bin/sh", "-c", WITH_SOCKETS])
            .arg(environment.sockets())
            .arg(&contender.program)
            .arg("kms-health-reporter")
            .flag("kms-sockets", "unix:///var/run/kmsplugin/kms-1.sock")
    };
    program
        .flag("interval", format!("{}ms", interval.as_millis()))
        .flag("node-name", node)
        .flag("kubeconfig", environment.kubeconfig())
        .start(&environment.site)
}
