//! `outrigger kms-preflight-controller`: checks KMS configurations before they are used.

use kms::preflight_controller::Settings;

use crate::Failure;

/// Run the controller that checks KMS configurations before they are used.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Run the controller that checks KMS configurations before they are used.\n\n\
        The operator resource requests a check with encryptionStatus.preflight.observedConfigHash; the controller writes the result \
        next to it. A failed check is retried after the delays of --retry-after, or immediately when the annotation \
        outrigger.dev/kms-preflight-retry of the resource changes.",
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

/// Runs the controller until it receives SIGTERM.
pub(crate) fn run(Args { settings }: Args) -> Result<(), Failure> {
    let settings = Settings::try_from(settings).map_err(Failure::Usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(kms::preflight_controller::run(settings))?)
}
