//! `outrigger kms-inject`: plugins and the reporter into a pod.

use std::io::{self, Write};

use crate::Failure;

/// Put KMS plugins and their reporter into the pod of an API server.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Put KMS plugins and their reporter into the pod of an API server.\n\n\
        Which plugins is told by the encryption-config secret. What was put there before is taken out first, so that doing it \
        again changes nothing. Comments in YAML are not kept.",
    after_help = "Examples:\n  \
        outrigger kms-inject -f pod.yaml --secret-file secret.yaml --reporter-image images.example/outrigger:v0.1.0\n  \
        outrigger kms-inject --static-pod openshift-kube-apiserver/kube-apiserver-pod-7 \
        --secret openshift-kube-apiserver/encryption-config-7 --disk-secret-name encryption-config \
        --reporter-image images.example/outrigger:v0.1.0 --check\n  \
        outrigger kms-inject --deployment openshift-apiserver/apiserver --container openshift-apiserver \
        --secret openshift-apiserver/encryption-config-7 --reporter-image images.example/outrigger:v0.1.0 --apply\n\n\
        Exit codes: 0 done, 1 failed, or --check found that the pod would change, 2 wrong usage."
)]
pub(crate) struct Args {
    #[command(flatten)]
    inject: kms::inject::Args,
}

/// Prints the pod, changes it, or says what would change.
pub(crate) fn run(Args { inject }: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = runtime.block_on(kms::inject::run(inject)).map_err(|error| match error {
        kms::inject::Error::Usage(why) => Failure::Usage(why),
        error => Failure::Failed(error.to_string()),
    })?;
    if let Some(note) = told.note {
        eprintln!("outrigger: {note}");
    }
    let mut out = io::stdout().lock();
    out.write_all(told.output.as_bytes())?;
    Ok(out.flush()?)
}
