//! `outrigger kms-reporter`: reports the health of KMS plugins.

use kms::reporter::Settings;

use crate::Failure;

/// Run the KMS health reporter next to an API server.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Run the KMS health reporter next to an API server.\n\n\
        Probes each plugin with the requests and acceptance rules of kube-apiserver and publishes the reports of a node, including \
        those of failing plugins, in one write. Exits with code 1 if a flag is invalid; after startup it runs until it receives a \
        signal.",
    after_help = "Examples:\n  \
        outrigger kms-reporter --kms-sockets unix:///var/run/kmsplugin/kms-2.sock,unix:///var/run/kmsplugin/kms-1.sock \
        --node-name master-0\n  \
        outrigger kms-reporter --kms-sockets unix:///run/kms/kms-1.sock --socket-dir /run/kms --node-name n1 \
        --publish kmshealth\n\n\
        All settings and metrics: docs/reference/kms-reporter.md"
)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: kms::reporter::Args,
}

/// Runs the reporter until it receives SIGTERM.
pub(crate) fn run(Args { settings }: Args) -> Result<(), Failure> {
    let settings =
        Settings::try_from(settings).map_err(|violation| Failure::Failed(violation.to_string()))?;
    // Single-threaded: it is idle most of the time, and each thread costs memory next to every API server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(kms::reporter::run(settings)).map_err(|error| Failure::Failed(error.to_string()))
}
