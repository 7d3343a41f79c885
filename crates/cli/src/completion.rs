//! `outrigger completion`: shell completion scripts.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

/// Print a shell completion script.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    outrigger completion bash > /etc/bash_completion.d/outrigger\n  \
    outrigger completion zsh > \"${fpath[1]}/_outrigger\"\n  \
    outrigger completion fish > ~/.config/fish/completions/outrigger.fish")]
pub(crate) struct Args {
    /// Shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the script to standard output. Buffers it first, because the generator panics if a write fails, for example on a
/// closed pipe.
pub(crate) fn run(Args { shell }: Args) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::args::Args::command(), "outrigger", &mut script);
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    out.flush()
}
