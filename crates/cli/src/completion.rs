//! `outrigger completion`: completion scripts for shells.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

/// Print a shell's completion script for this binary.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    outrigger completion bash > /etc/bash_completion.d/outrigger\n  \
    outrigger completion zsh > \"${fpath[1]}/_outrigger\"\n  \
    outrigger completion fish > ~/.config/fish/completions/outrigger.fish")]
pub(crate) struct Args {
    /// The shell to complete in.
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the script to standard output. It is made in memory first: the generator panics when a write fails, as it
/// does when the reader has closed the pipe.
pub(crate) fn run(Args { shell }: Args) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::args::Args::command(), "outrigger", &mut script);
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    out.flush()
}
