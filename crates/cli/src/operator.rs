//! `outrigger operator`: SeiNode and SeiNodeDeployment controllers.

use operator::settings::Settings;

use crate::Failure;

/// Run the operator, which reconciles SeiNodes and SeiNodeDeployments.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Run the operator, which reconciles SeiNodes and SeiNodeDeployments.\n\n\
        Every setting is a flag or an environment variable. If settings are invalid, all errors are reported together and the \
        process exits with code 2.",
    after_help = "Examples:\n  \
        outrigger operator --kubeconfig ~/.kube/config --watch-namespaces sei\n  \
        SEI_SIDECAR_IMAGE=images.example/outrigger:v0.1.0 outrigger operator ...\n\n\
        All settings: docs/reference/operator-settings.md"
)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: operator::settings::Args,
}

/// Runs the operator until it receives SIGTERM.
pub(crate) fn run(Args { settings }: Args) -> Result<(), Failure> {
    let settings = Settings::try_from(settings).map_err(|problems| Failure::Usage(problems.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(operator::run(settings)).map_err(|error| match error {
        operator::Error::Process(error) => error.into(),
        error => Failure::Failed(error.to_string()),
    })
}
