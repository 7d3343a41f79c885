//! `outrigger kms-inject`: injects KMS plugins and their health reporter into a pod.

use std::io::{self, Write};

use crate::Failure;

/// Inject KMS plugins and their health reporter into an API server pod.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Inject KMS plugins and their health reporter into an API server pod.\n\n\
        The encryption-config Secret defines the plugins. Previously injected containers and volumes are removed first, so the \
        command is idempotent. YAML comments are not preserved.",
    after_help = "Examples:\n  \
        outrigger kms-inject -f pod.yaml --secret-file secret.yaml --reporter-image images.example/outrigger:v0.1.0\n  \
        outrigger kms-inject --static-pod openshift-kube-apiserver/kube-apiserver-pod-7 \
        --secret openshift-kube-apiserver/encryption-config-7 --disk-secret-name encryption-config \
        --reporter-image images.example/outrigger:v0.1.0 --check\n  \
        outrigger kms-inject --deployment openshift-apiserver/apiserver --container openshift-apiserver \
        --secret openshift-apiserver/encryption-config-7 --reporter-image images.example/outrigger:v0.1.0 --apply\n\n\
        Exit codes: 0 success, 1 failure or --check found changes, 2 invalid usage."
)]
pub(crate) struct Args {
    #[command(flatten)]
    inject: kms::inject::Args,
}

/// Prints the modified pod, applies it, or lists the changes.
pub(crate) fn run(Args { inject }: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(kms::inject::run(inject)).map_err(|error| match error {
        kms::inject::Error::Usage(why) => Failure::Usage(why),
        error => Failure::Failed(error.to_string()),
    })?;
    if let Some(note) = outcome.note {
        eprintln!("outrigger: {note}");
    }
    let mut out = io::stdout().lock();
    out.write_all(outcome.output.as_bytes())?;
    Ok(out.flush()?)
}
