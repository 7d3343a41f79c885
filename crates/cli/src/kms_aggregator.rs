//! `outrigger kms-aggregator`: aggregates KMS health reports into conditions.

use kms::aggregator::settings::Settings;

use crate::Failure;

/// Run the KMS health aggregator.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Run the KMS health aggregator.\n\n\
        Aggregates the KMS plugin reports of all nodes into conditions and removes the reports of deleted nodes.\n\n\
        Every setting is a flag or an environment variable. If settings are invalid, all errors are reported together and the \
        process exits with code 2.",
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

/// Runs the aggregator until it receives SIGTERM.
pub(crate) fn run(Args { settings }: Args) -> Result<(), Failure> {
    let settings = Settings::try_from(settings).map_err(|problems| Failure::Usage(problems.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(kms::aggregator::run(settings))?)
}
