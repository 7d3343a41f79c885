//! `outrigger proxy`: authorizing reverse proxy, a drop-in replacement for kube-rbac-proxy.

use proxy::Settings;

use crate::Failure;

/// Run the authorizing reverse proxy, a drop-in replacement for kube-rbac-proxy.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Run the authorizing reverse proxy, a drop-in replacement for kube-rbac-proxy.\n\n\
        Authenticates each request (token, client certificate, OpenID Connect), authorizes it with a SubjectAccessReview and \
        forwards it. If flags are invalid, all errors are reported together and the process exits.\n\n\
        A binary named kube-rbac-proxy accepts these flags without the subcommand.",
    after_help = "Examples:\n  \
        outrigger proxy --secure-listen-address=0.0.0.0:8443 --upstream=http://127.0.0.1:8081/ --tls-cert-file=/tls/tls.crt \
        --tls-private-key-file=/tls/tls.key\n  \
        outrigger proxy --insecure-listen-address=0.0.0.0:8443 --upstream=http://127.0.0.1:7777/ \
        --config-file=/etc/kube-rbac-proxy/config.yaml --ignore-paths=/v0/healthz,/v0/livez --auth-header-fields-enabled=true \
        --auth-token-audiences=sidecar.sei.io\n  \
        ln -s outrigger kube-rbac-proxy && ./kube-rbac-proxy --help\n\n\
        Exit codes: 0 terminated by a signal, 1 failure or invalid usage.\n\
        All flags and metrics: docs/reference/proxy.md"
)]
pub(crate) struct Args {
    #[command(flatten)]
    proxy: proxy::flags::Args,
}

/// Runs the proxy until it receives SIGTERM.
pub(crate) fn run(Args { proxy }: Args) -> Result<(), Failure> {
    if let Some(form) = proxy.version() {
        println!("{}", version(form));
        return Ok(());
    }
    let settings = Settings::try_from(proxy).map_err(|problems| Failure::Failed(problems.to_string()))?;
    // One thread for background work; the proxy starts the serving threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(proxy::run(settings)).map_err(|error| Failure::Failed(error.to_string()));
    // An abandoned DNS lookup must not delay the exit.
    runtime.shutdown_background();
    result
}

fn version(form: &str) -> String {
    let own = concat!("v", env!("CARGO_PKG_VERSION"));
    match form {
        "raw" => format!(
            "outrigger proxy {own} ({}, {}), in place of kube-rbac-proxy v0.21.0",
            std::env::consts::OS,
            std::env::consts::ARCH
        ),
        requested if requested.starts_with('v') => format!("kube-rbac-proxy {requested}"),
        _ => format!("kube-rbac-proxy {own}"),
    }
}
