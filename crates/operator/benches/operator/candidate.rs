//! The operators that are measured: ours, and the one that it stands in for.

use std::path::{Path, PathBuf};

use testbed::Error;
use testbed::bench::Build;
use testbed::process::{Process, Program};

use crate::platform::PLATFORM;
use crate::world::World;

/// The peer reads its token from where a kubelet would put it, and nowhere else. It gets a /run of its own, with nothing
/// in it but that.
const WITH_A_TOKEN: &str = "mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount \
    && echo a-token >/run/secrets/kubernetes.io/serviceaccount/token && exec \"$0\" \"$@\"";

/// The folder with the kinds that it works on: ours, unless `OUTRIGGER_PEER_OPERATOR_CRDS` names another for the peer.
pub fn kinds(contender: &Build) -> PathBuf {
    let of_peer = std::env::var_os("OUTRIGGER_PEER_OPERATOR_CRDS").filter(|_| contender.name == "peer");
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    of_peer.map_or_else(ours, PathBuf::from)
}

/// The user as whom it asks the API server.
pub fn user(contender: &Build) -> String {
    format!("operator-{}", contender.name)
}

/// Starts it.
pub fn start(contender: &Build, world: &World) -> Result<Process, Error> {
    let kubeconfig =
        world.plane.user(&user(contender), Some("system:masters"))?.write_kubeconfig(world.site.dir())?;
    let sidecars = world.sidecars.address();
    let mut program = if contender.name == "ours" {
        let token = world.site.dir().join("token");
        std::fs::write(&token, "a-token")
            .map_err(|source| Error::Io { what: "writing a token".into(), source })?;
        Program::new("operator", &contender.program)
            .arg("operator")
            .flag("kubeconfig", &kubeconfig)
            .flag("pod-namespace", &world.namespace)
            .flag("sidecar-address-template", sidecars.to_string())
            .flag("sidecar-token-file", &token)
    } else {
        Program::new("operator", "/usr/bin/unshare")
            .args(["--mount", "--", "/bin/sh", "-c", WITH_A_TOKEN])
            .arg(&contender.program)
            .env("KUBECONFIG", &kubeconfig)
            // Sidecars have no addresses here. Asked as a proxy, the server that plays them sees whom a request is for.
            .env("HTTP_PROXY", format!("http://{sidecars}"))
    };
    // The same for both.
    for (name, value) in PLATFORM.into_iter().chain(OF_THE_PEER) {
        program = program.env(name, value);
    }
    program
        .flag("leader-elect", "false")
        .flag("metrics-bind-address", "0")
        .flag("health-probe-bind-address", "0")
        .start(&world.site)
}

/// Settings that the peer does not start without, and ours says to have no effect.
const OF_THE_PEER: [(&str, &str); 6] = [
    ("SEI_RESULT_EXPORT_BUCKET", "results"),
    ("SEI_RESULT_EXPORT_REGION", "here"),
    ("SEI_RESULT_EXPORT_PREFIX", "results/"),
    ("SEI_GATEWAY_NAME", "gateway"),
    ("SEI_GATEWAY_NAMESPACE", "gateway"),
    ("SEI_GATEWAY_DOMAIN", "sei.example"),
];
