//! `outrigger kms-reporter`: says how the KMS plugins beside an API server are.

use kms::reporter::Settings;

use crate::Failure;

/// Report the health of the KMS plugins beside an API server.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Report the health of the KMS plugins beside an API server.\n\n\
        Each plugin is asked as kube-apiserver asks it, and judged as kube-apiserver judges it; all reports of a node are one \
        write. Reports of plugins that fail are stored too. A flag that is wrong ends it with code 1 and one line; after \
        that nothing does but a signal.",
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

/// Lives as the reporter until it is told to end.
pub(crate) fn run(Args { settings }: Args) -> Result<(), Failure> {
    let settings =
        Settings::try_from(settings).map_err(|violation| Failure::Failed(violation.to_string()))?;
    // One thread: it waits nearly all of its time, and every thread costs memory beside each API server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(kms::reporter::run(settings)).map_err(|error| Failure::Failed(error.to_string()))
}
