//! Ending on a signal without leaving anything behind.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cluster::site;
use crate::error::{IoContext, Result};

/// Removes everything this process owns when it is told to end, and ends it with the code that `code` gives for the
/// signal. A second signal during the removal changes nothing: half a removal helps nobody.
pub fn remove_on_signal(code: impl Fn(i32) -> i32 + Send + 'static) -> Result<()> {
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGTERM]).context(|| "listening for signals".to_owned())?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            eprintln!("testbed: ended by signal {signal}; removing what was started");
            let code = code(signal);
            site::end_all();
            std::process::exit(code);
        }
    });
    Ok(())
}
