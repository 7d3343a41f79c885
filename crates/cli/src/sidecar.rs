//! `outrigger sidecar`: the node's task API.

use sidecar::{Error, Settings};

use crate::Failure;

/// Threads for what blocks: unpacking, packing, hashing.
const BLOCKING_THREADS: usize = 8;

/// Run a node's sidecar: the API that takes tasks, and does them.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Run a node's sidecar: the API that takes tasks, and does them.\n\n\
        What was taken is on disk before it is answered, and is done again after a crash. Also runs as `seictl serve`, with the \
        same variables. Settings that are wrong are all told at once, with exit code 2, before anything is begun.",
    after_help = "Examples:\n  \
        outrigger sidecar --home /sei --chain-id arctic-1 --genesis-bucket genesis --genesis-region us-east-2 \
        --snapshot-bucket snapshots --snapshot-region us-east-2\n  \
        outrigger sidecar --authn-mode trusted-header --port 7777\n\n\
        All settings: docs/reference/sidecar-settings.md; the API: docs/reference/sidecar-openapi.json"
)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: sidecar::Args,
}

/// Lives as the sidecar until it is told to end.
pub(crate) fn run(Args { settings }: Args) -> Result<(), Failure> {
    let settings = Settings::try_from(settings).map_err(|problems| Failure::Usage(problems.to_string()))?;
    // One thread for what waits: it stands beside every node, and threads cost memory.
    let threads = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()?;
    let done = threads.block_on(sidecar::run(settings));
    // Work that does not end must not keep the process from doing so.
    threads.shutdown_background();
    done.map_err(|error| match error {
        Error::Telemetry(_) => Failure::Usage(error.to_string()),
        error => Failure::Failed(error.to_string()),
    })
}
