//! `outrigger proxy`: the authorizing reverse proxy, a drop-in for kube-rbac-proxy.

use proxy::Settings;

use crate::Failure;

/// Run the authorizing reverse proxy: a drop-in for kube-rbac-proxy.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Run the authorizing reverse proxy: a drop-in for kube-rbac-proxy.\n\n\
        Every request is authenticated (token, client certificate, OpenID Connect), authorized by the API server, and forwarded. \
        All that is wrong with flags is told at once, and nothing is started then.\n\
        A binary that is called kube-rbac-proxy takes these flags without the subcommand.",
    after_help = "Examples:\n  \
        outrigger proxy --secure-listen-address=0.0.0.0:8443 --upstream=http://127.0.0.1:8081/ --tls-cert-file=/tls/tls.crt \
        --tls-private-key-file=/tls/tls.key\n  \
        outrigger proxy --insecure-listen-address=0.0.0.0:8443 --upstream=http://127.0.0.1:7777/ \
        --config-file=/etc/kube-rbac-proxy/config.yaml --ignore-paths=/v0/healthz,/v0/livez --auth-header-fields-enabled=true \
        --auth-token-audiences=sidecar.sei.io\n  \
        ln -s outrigger kube-rbac-proxy && ./kube-rbac-proxy --help\n\n\
        Exit codes: 0 told to end, 1 failed or wrong usage.\n\
        All flags and metrics: docs/reference/proxy.md"
)]
pub(crate) struct Args {
    #[command(flatten)]
    proxy: proxy::flags::Args,
}

/// Lives as the proxy until it is told to end.
pub(crate) fn run(Args { proxy }: Args) -> Result<(), Failure> {
    if let Some(form) = proxy.version() {
        println!("{}", version(form));
        return Ok(());
    }
    let settings = Settings::try_from(proxy).map_err(|problems| Failure::Failed(problems.to_string()))?;
    // One thread for what happens seldom; those that serve are started by the proxy.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(proxy::run(settings)).map_err(|error| Failure::Failed(error.to_string()));
    // A look-up that nobody waits for any more must not hold the end up.
    runtime.shutdown_background();
    ended
}

fn version(form: &str) -> String {
    let own = concat!("v", env!("CARGO_PKG_VERSION"));
    match form {
        "raw" => format!(
            "outrigger proxy {own} ({}, {}), in place of kube-rbac-proxy v0.21.0",
            std::env::consts::OS,
            std::env::consts::ARCH
        ),
        wanted if wanted.starts_with('v') => format!("kube-rbac-proxy {wanted}"),
        _ => format!("kube-rbac-proxy {own}"),
    }
}
