//! `outrigger operator`: the controllers of nodes and fleets.

use operator::settings::Settings;

use crate::Failure;

/// Run the operator: nodes and fleets are brought to their specs, and kept there.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Run the operator: nodes and fleets are brought to their specs, and kept there.\n\n\
        Every setting is a flag or an environment variable. All that is wrong with them is told at once, and nothing \
        is started then.",
    after_help = "Examples:\n  \
        outrigger operator --kubeconfig ~/.kube/config --watch-namespaces sei\n  \
        SEI_SIDECAR_IMAGE=images.example/outrigger:v0.1.0 outrigger operator ...\n\n\
        All settings: docs/reference/operator-settings.md"
)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: operator::settings::Args,
}

/// Lives as the operator until it is told to end.
pub(crate) fn run(Args { settings }: Args) -> Result<(), Failure> {
    let settings = Settings::try_from(settings).map_err(|problems| Failure::Usage(problems.to_string()))?;
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    threads.block_on(operator::run(settings)).map_err(|error| match error {
        operator::Error::Process(runtime::process::Error::Telemetry(why)) => Failure::Usage(why),
        error => Failure::Failed(error.to_string()),
    })
}
