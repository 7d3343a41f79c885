//! `outrigger kms-preflight`: the check of a KMS configuration, from inside its pod.

use std::io::{self, Write};

use kms::preflight::Settings;

use crate::Failure;

/// Check KMS plugins from inside a pod, and post what was found on the pod.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Check KMS plugins from inside a pod, and post what was found on the pod.\n\n\
        The preflight controller starts it; by hand, `outrigger kms-check` does the same without a cluster.",
    after_help = "Examples:\n  \
        outrigger kms-preflight --kms-sockets unix:///var/run/kmsplugin/kms-2.sock,unix:///var/run/kmsplugin/kms-1.sock \
        --kms-call-timeout 5s --config-hash cuZm_g== --pod-name kms-preflight --pod-namespace openshift-kube-apiserver\n\n\
        Exit codes: 0 what was found is posted, also when it is bad; 1 it could not be posted, or a flag is wrong; 2 a flag is \
        missing or cannot be read."
)]
pub(crate) struct Args {
    #[command(flatten)]
    preflight: kms::preflight::Args,
}

/// Checks, posts, and prints what was found.
pub(crate) fn run(Args { preflight }: Args) -> Result<(), Failure> {
    let settings = Settings::try_from(preflight).map_err(Failure::Failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime
        .block_on(kms::preflight::run(settings))
        .map_err(|error| Failure::Failed(error.to_string()))?;
    let mut out = io::stdout().lock();
    out.write_all(kms::check::table(&found).as_bytes())?;
    Ok(out.flush()?)
}
