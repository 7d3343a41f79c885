//! `outrigger kms-preflight-controller`: has every KMS configuration checked before it is used.

use kms::preflight_controller::{Error, Settings};

use crate::Failure;

/// Have every KMS configuration checked before it is used.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Have every KMS configuration checked before it is used.\n\n\
        The operator's resource asks for a check by encryptionStatus.preflight.observedConfigHash; the result is written beside \
        it. A check that failed is made again after the waits of --retry-after, or at once when the annotation \
        outrigger.dev/kms-preflight-retry of the resource gets another value.",
    after_help = "Examples:\n  \
        outrigger kms-preflight-controller --namespace openshift-kube-apiserver --image images.example/outrigger:v0.1.0\n  \
        outrigger kms-preflight-controller --target OpenShiftAPIServer --namespace openshift-apiserver \
        --image images.example/outrigger:v0.1.0\n  \
        kubectl annotate kubeapiserver cluster --overwrite outrigger.dev/kms-preflight-retry=\"$(date)\""
)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: kms::preflight_controller::Args,
}

/// Lives as the controller until it is told to end.
pub(crate) fn run(Args { settings }: Args) -> Result<(), Failure> {
    let settings = Settings::try_from(settings).map_err(Failure::Usage)?;
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    threads.block_on(kms::preflight_controller::run(settings)).map_err(|error| match error {
        Error::Process(runtime::process::Error::Telemetry(why)) => Failure::Usage(why),
        error => Failure::Failed(error.to_string()),
    })
}
