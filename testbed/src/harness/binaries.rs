//! Finds our own binaries of the current build.

use std::path::PathBuf;

use crate::error::{Error, IoContext, Result};

/// Returns the path of one of our binaries: next to the running one, which is that binary, a test or an example of
/// the same build.
pub fn path(name: &str) -> Result<PathBuf> {
    let current = std::env::current_exe().context(|| "locating the running binary".to_owned())?;
    let found =
        current.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::Other(format!(
            "{name} not found next to {}: run cargo build --locked --workspace --bins",
            current.display()
        ))
    })
}
