//! The first process of a pod or node inherits orphaned processes. It must wait for them, otherwise they stay as zombies
//! and use up process IDs.

use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{IoContext, Result};

/// Reaps children until SIGTERM or SIGINT.
pub(super) fn run() -> Result<()> {
    let mut signals =
        Signals::new([SIGCHLD, SIGINT, SIGTERM]).context(|| "listening for signals".to_owned())?;
    // Signals of children that exited earlier were lost.
    reap()?;
    for signal in signals.forever() {
        if signal != SIGCHLD {
            return Ok(());
        }
        reap()?;
    }
    Ok(())
}

/// Reaps all exited children: one signal can stand for several.
fn reap() -> Result<()> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()).context(|| "waiting for a child".to_owned()),
        }
    }
}
