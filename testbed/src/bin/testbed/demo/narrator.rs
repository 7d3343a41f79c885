//! Output of the demo: sections, events, kubectl commands.

use std::time::{Duration, Instant};

use testbed::Result;
use testbed::cluster::control_plane::ControlPlane;
use testbed::cluster::kubectl;

/// Maximum number of output lines per command.
const MAX_LINES: usize = 16;

/// Prints events with the time since the start.
pub(super) struct Narrator {
    begin: Instant,
}

impl Narrator {
    pub(super) fn new() -> Self {
        Self { begin: Instant::now() }
    }

    /// Starts a section.
    pub(super) fn section(&self, title: &str, description: &str) {
        println!("\n== {title}\n   {description}");
    }

    /// Prints an event.
    pub(super) fn event(&self, text: impl AsRef<str>) {
        println!("[{:5.1} s] {}", self.begin.elapsed().as_secs_f64(), text.as_ref());
    }

    /// Prints and runs a kubectl command, with its output.
    pub(super) fn show(&self, plane: &ControlPlane, args: &[&str]) -> Result<()> {
        println!("          $ {}", command_line(args));
        let output = kubectl::run(plane, args, None)?;
        let lines: Vec<&str> = output.lines().collect();
        for line in lines.iter().take(MAX_LINES) {
            println!("          {line}");
        }
        if lines.len() > MAX_LINES {
            println!("          ... and {} more lines", lines.len() - MAX_LINES);
        }
        Ok(())
    }

    /// Prints and runs a kubectl command, without its output.
    pub(super) fn run(&self, plane: &ControlPlane, args: &[&str]) -> Result<()> {
        println!("          $ {}", command_line(args));
        kubectl::run(plane, args, None).map(drop)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// Returns the command line with shell quotes.
fn command_line(args: &[&str]) -> String {
    let quoted = |arg: &&str| {
        if arg.contains(['{', ' ', '"']) { format!("'{arg}'") } else { (*arg).to_owned() }
    };
    format!("kubectl {}", args.iter().map(quoted).collect::<Vec<_>>().join(" "))
}
