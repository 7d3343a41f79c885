//! The operators that are measured: this one, and the upstream controller as its peer.

use std::path::{Path, PathBuf};

use testbed::Error;
use testbed::bench::Build;
use testbed::process::{Process, Program};

use crate::environment::{Environment, SERVICE_ACCOUNT};
use crate::platform::PLATFORM;

/// The peer reads its token only from the path where a kubelet mounts it. It gets a private /run with nothing but the token.
const MOUNT_TOKEN: &str = "mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount \
    && echo a-token >/run/secrets/kubernetes.io/serviceaccount/token && exec \"$0\" \"$@\"";

/// Returns the directory of the CRDs: `deploy/crds`, unless `OUTRIGGER_PEER_OPERATOR_CRDS` is set for the peer.
pub fn crd_dir(candidate: &Build) -> PathBuf {
    let peer_crds = std::env::var_os("OUTRIGGER_PEER_OPERATOR_CRDS").filter(|_| candidate.name == "peer");
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    peer_crds.map_or_else(ours, PathBuf::from)
}

/// Returns the API server user of a candidate.
pub fn user(candidate: &Build) -> String {
    format!("operator-{}", candidate.name)
}

/// Starts a candidate.
pub fn start(candidate: &Build, environment: &Environment) -> Result<Process, Error> {
    let kubeconfig = environment
        .plane
        .user(&user(candidate), Some("system:masters"))?
        .write_kubeconfig(environment.site.dir())?;
    let sidecars = environment.sidecars.address();
    let mut program = if candidate.name == "ours" {
        let token = environment.site.dir().join("token");
        std::fs::write(&token, "a-token")
            .map_err(|source| Error::Io { what: "writing the token file".into(), source })?;
        Program::new("operator", &candidate.program)
            .arg("operator")
            .flag("kubeconfig", &kubeconfig)
            .flag("pod-namespace", &environment.namespace)
            .flag("sidecar-address-template", sidecars.to_string())
            .flag("token-service-account", format!("{}/{SERVICE_ACCOUNT}", environment.namespace))
            .flag("legacy-sidecar-token-file", &token)
    } else {
        Program::new("operator", "/usr/bin/unshare")
            .args(["--mount", "--", "/bin/sh", "-c", MOUNT_TOKEN])
            .arg(&candidate.program)
            .env("KUBECONFIG", &kubeconfig)
            // The scripted sidecars share one address. As an HTTP proxy, their server sees which sidecar a request is for.
            .env("HTTP_PROXY", format!("http://{sidecars}"))
    };
    // The same settings for both.
    for (name, value) in PLATFORM.into_iter().chain(PEER_SETTINGS) {
        program = program.env(name, value);
    }
    program
        .flag("leader-elect", "false")
        .flag("metrics-bind-address", "0")
        .flag("health-probe-bind-address", "0")
        .start(&environment.site)
}

/// Settings that only the peer requires.
const PEER_SETTINGS: [(&str, &str); 6] = [
    ("SEI_RESULT_EXPORT_BUCKET", "results"),
    ("SEI_RESULT_EXPORT_REGION", "here"),
    ("SEI_RESULT_EXPORT_PREFIX", "results/"),
    ("SEI_GATEWAY_NAME", "gateway"),
    ("SEI_GATEWAY_NAMESPACE", "gateway"),
    ("SEI_GATEWAY_DOMAIN", "sei.example"),
];
