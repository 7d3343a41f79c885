//! `outrigger kms-preflight`: checks a KMS configuration from inside its preflight pod.

use std::io::{self, Write};

use kms::preflight::Settings;

use crate::Failure;

/// Check KMS plugins from inside a pod and report the result in the pod status.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Check KMS plugins from inside a pod and report the result in the pod status.\n\n\
        The preflight controller creates this pod. To check plugins manually, use `outrigger kms-check`, which needs no cluster.",
    after_help = "Examples:\n  \
        outrigger kms-preflight --kms-sockets unix:///var/run/kmsplugin/kms-2.sock,unix:///var/run/kmsplugin/kms-1.sock \
        --kms-call-timeout 5s --config-hash cuZm_g== --pod-name kms-preflight --pod-namespace openshift-kube-apiserver\n\n\
        Exit codes: 0 result reported (also if the check failed), 1 result could not be reported or a flag value is invalid, 2 a \
        flag is missing or malformed."
)]
pub(crate) struct Args {
    #[command(flatten)]
    preflight: kms::preflight::Args,
}

/// Checks the plugins, reports and prints the result.
pub(crate) fn run(Args { preflight }: Args) -> Result<(), Failure> {
    let settings = Settings::try_from(preflight).map_err(Failure::Failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let results = runtime
        .block_on(kms::preflight::run(settings))
        .map_err(|error| Failure::Failed(error.to_string()))?;
    let mut out = io::stdout().lock();
    out.write_all(kms::check::render_table(&results).as_bytes())?;
    Ok(out.flush()?)
}
