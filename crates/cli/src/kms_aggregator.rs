//! `outrigger kms-aggregator`: what reports of KMS plugins add up to.

use kms::aggregator::settings::Settings;

use crate::Failure;

/// Run the aggregator: reports of KMS plugins become conditions, and those of nodes that are gone are removed.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Run the aggregator: reports of KMS plugins become conditions, and those of nodes that are gone are removed.\n\n\
        Every setting is a flag or an environment variable. All that is wrong with them is told at once, and nothing \
        is started then.",
    after_help = "Examples:\n  \
        outrigger kms-aggregator --kubeconfig ~/.kube/config --pod-namespace kms\n  \
        outrigger kms-aggregator --targets kubeapiserver,openshiftapiserver,authentication\n  \
        outrigger kms-aggregator --targets kubeapiserver --cluster-operator kube-apiserver\n\n\
        All settings: docs/reference/kms-aggregator-settings.md"
)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: kms::aggregator::settings::Args,
}

/// Lives as the aggregator until it is told to end.
pub(crate) fn run(Args { settings }: Args) -> Result<(), Failure> {
    let settings = Settings::try_from(settings).map_err(|problems| Failure::Usage(problems.to_string()))?;
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    threads.block_on(kms::aggregator::run(settings)).map_err(|error| match error {
        kms::aggregator::Error::Process(runtime::process::Error::Telemetry(why)) => Failure::Usage(why),
        error => Failure::Failed(error.to_string()),
    })
}
