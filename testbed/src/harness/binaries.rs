//! Our own programs, as this build has made them.

use std::path::PathBuf;

use crate::error::{Error, IoContext, Result};

/// Where one of our programs is: beside the running one, which is it itself, a test or an example of the same build.
pub fn path(name: &str) -> Result<PathBuf> {
    let running = std::env::current_exe().context(|| "finding our own program".to_owned())?;
    let found =
        running.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::Refused(format!(
            "{name} is not built (looked beside {}): cargo build --workspace --bins",
            running.display()
        ))
    })
}
