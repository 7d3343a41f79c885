//! `outrigger kms-check`: one-time check of KMS plugins.

use std::io::{self, Write};

use kms::check::OutputFormat;

use crate::Failure;

/// Check whether an API server can use KMS plugins.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    long_about = "Check whether an API server can use KMS plugins.\n\n\
        Sends the same requests as kube-apiserver to each KMS v2 plugin once: status, version, key ID, and an encrypt/decrypt round \
        trip whose ciphertext must have a size and key ID that API servers accept.",
    after_help = "Examples:\n  \
        outrigger kms-check /var/run/kmsplugin/kms-1.sock\n  \
        outrigger kms-check unix:///var/run/kmsplugin/kms-2.sock unix:///var/run/kmsplugin/kms-1.sock -o json\n\n\
        Exit codes: 0 all plugins passed, 1 a plugin failed, 2 invalid usage."
)]
pub(crate) struct Args {
    #[command(flatten)]
    check: kms::check::Args,
}

/// Checks the plugins and prints the results.
pub(crate) fn run(Args { check }: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let results = runtime.block_on(kms::check::run(&check));
    let text = match check.output {
        OutputFormat::Table => kms::check::render_table(&results),
        OutputFormat::Json => kms::check::render_json(&results).map_err(io::Error::other)?,
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    let failed: Vec<&str> =
        results.iter().filter(|result| !result.passed).map(|result| result.socket.as_str()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("KMS plugin check failed: {}", failed.join(", "))))
}
