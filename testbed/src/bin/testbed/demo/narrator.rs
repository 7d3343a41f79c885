//! Tells what happens, and shows it with kubectl.

use std::time::{Duration, Instant};

use testbed::Result;
use testbed::cluster::control_plane::ControlPlane;
use testbed::cluster::kubectl;

/// Lines of one command that are shown; the rest is counted.
const MOST_LINES: usize = 16;

/// Tells what happens, with the time since the start.
pub(super) struct Narrator {
    begin: Instant,
}

impl Narrator {
    pub(super) fn new() -> Self {
        Self { begin: Instant::now() }
    }

    /// A part of the story: what it shows, and why that matters.
    pub(super) fn chapter(&self, title: &str, why: &str) {
        println!("\n== {title}\n   {why}");
    }

    /// Something that has happened.
    pub(super) fn say(&self, what: impl AsRef<str>) {
        println!("[{:5.1} s] {}", self.begin.elapsed().as_secs_f64(), what.as_ref());
    }

    /// Shows a kubectl command and what it prints.
    pub(super) fn show(&self, plane: &ControlPlane, args: &[&str]) -> Result<()> {
        println!("          $ {}", line(args));
        let said = kubectl::run(plane, args, None)?;
        let lines: Vec<&str> = said.lines().collect();
        for line in lines.iter().take(MOST_LINES) {
            println!("          {line}");
        }
        if lines.len() > MOST_LINES {
            println!("          ... and {} more lines", lines.len() - MOST_LINES);
        }
        Ok(())
    }

    /// Shows a kubectl command that changes something, and runs it; what it prints is of no interest.
    pub(super) fn act(&self, plane: &ControlPlane, args: &[&str]) -> Result<()> {
        println!("          $ {}", line(args));
        kubectl::run(plane, args, None).map(drop)
    }

    pub(super) fn took(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// A command as it is typed.
fn line(args: &[&str]) -> String {
    let quoted = |arg: &&str| {
        if arg.contains(['{', ' ', '"']) { format!("'{arg}'") } else { (*arg).to_owned() }
    };
    format!("kubectl {}", args.iter().map(quoted).collect::<Vec<_>>().join(" "))
}
