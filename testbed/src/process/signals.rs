//! Cleanup on signals.

use std::io::Write;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cluster::site;
use crate::error::{IoContext, Result};

/// Cleans up everything this process owns on SIGHUP, SIGINT or SIGTERM, and exits with `code(signal)`. A second
/// signal is ignored, so that the cleanup completes.
pub fn cleanup_on_signal(code: impl Fn(i32) -> i32 + Send + 'static) -> Result<()> {
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGTERM]).context(|| "installing signal handlers".to_owned())?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // `eprintln!` would panic if the reader of a pipe has exited, and nothing would be cleaned up.
            let _ = writeln!(std::io::stderr(), "testbed: received signal {signal}; cleaning up");
            let code = code(signal);
            site::remove_all();
            std::process::exit(code);
        }
    });
    Ok(())
}
