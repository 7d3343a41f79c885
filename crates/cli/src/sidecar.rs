//! `outrigger sidecar`: task API of a node.

use sidecar::{Error, Settings};

use crate::Failure;

/// Threads for blocking work: packing, unpacking, hashing.
const BLOCKING_THREADS: usize = 8;

/// Run the node sidecar, which serves the task API.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Run the node sidecar, which serves the task API.\n\n\
        An accepted task is persisted before the response is sent and retried after a crash. Compatible with `seictl serve` and its \
        environment variables. If settings are invalid, all errors are reported together and the process exits with code 2.",
    after_help = "Examples:\n  \
        outrigger sidecar --home /sei --chain-id arctic-1 --genesis-bucket genesis --genesis-region us-east-2 \
        --snapshot-bucket snapshots --snapshot-region us-east-2\n  \
        outrigger sidecar --listen unix:/run/sei-sidecar/api.sock --seid-control-dir /run/seid-control\n\n\
        All settings: docs/reference/sidecar-settings.md; the API: docs/reference/sidecar-openapi.json"
)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: sidecar::Args,
}

/// Runs the sidecar until it receives SIGTERM.
pub(crate) fn run(Args { settings }: Args) -> Result<(), Failure> {
    let settings = Settings::try_from(settings).map_err(|problems| Failure::Usage(problems.to_string()))?;
    // One async thread: it runs next to every node, and threads cost memory.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()?;
    let result = runtime.block_on(sidecar::run(settings));
    // Unfinished blocking work must not delay the exit.
    runtime.shutdown_background();
    result.map_err(|error| match error {
        Error::Telemetry(_) => Failure::Usage(error.to_string()),
        error => Failure::Failed(error.to_string()),
    })
}
