//! The first process of a pod or a node inherits every process whose parent has ended. Unless it waits for them they
//! stay as zombies, and a node that lives long runs out of process ids.

use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{IoContext, Result};

/// Reaps until told to end.
pub(super) fn run() -> Result<()> {
    let mut signals =
        Signals::new([SIGCHLD, SIGINT, SIGTERM]).context(|| "listening for signals".to_owned())?;
    // Children that ended before we listened sent their signal to nobody.
    reap()?;
    for signal in signals.forever() {
        if signal != SIGCHLD {
            return Ok(());
        }
        reap()?;
    }
    Ok(())
}

/// One signal can stand for many ended children.
fn reap() -> Result<()> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()).context(|| "waiting for a child".to_owned()),
        }
    }
}
