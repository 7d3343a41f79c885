//! `outrigger kms-check`: everything that kube-apiserver asks of a KMS plugin, once.

use std::io::{self, Write};

use kms::check::Notation;

use crate::Failure;

/// Check KMS plugins: whether an API server could use them.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Check KMS plugins: whether an API server could use them.\n\n\
        Everything that kube-apiserver asks of a KMS v2 plugin is asked once: status, version, key id, and that what it encrypts \
        has the size and the key that API servers accept and is decrypted again.",
    after_help = "Examples:\n  \
        outrigger kms-check /var/run/kmsplugin/kms-1.sock\n  \
        outrigger kms-check unix:///var/run/kmsplugin/kms-2.sock unix:///var/run/kmsplugin/kms-1.sock -o json\n\n\
        Exit codes: 0 all are good, 1 one is bad, 2 wrong usage."
)]
pub(crate) struct Args {
    #[command(flatten)]
    check: kms::check::Args,
}

/// Prints what was found.
pub(crate) fn run(Args { check }: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(kms::check::run(&check));
    let text = match check.output {
        Notation::Table => kms::check::table(&found),
        Notation::Json => kms::check::json(&found).map_err(io::Error::other)?,
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    let bad: Vec<&str> = found.iter().filter(|one| !one.passed).map(|one| one.socket.as_str()).collect();
    if bad.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("an API server could not use {}", bad.join(", "))))
}
