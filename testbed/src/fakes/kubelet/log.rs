//! What was played, for who reads a failed test.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::error::{IoContext, Result};

/// A log, written anew.
#[derive(Debug)]
pub(super) struct Log {
    file: Mutex<File>,
    begin: Instant,
}

impl Log {
    pub(super) fn create(path: &Path) -> Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
        }
        let file = File::create(path).context(|| format!("writing {}", path.display()))?;
        Ok(Self { file: Mutex::new(file), begin: Instant::now() })
    }

    /// Writes a line about something.
    pub(super) fn say(&self, about: impl Display, what: impl Display) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let at = self.begin.elapsed().as_secs_f64();
        // Nothing depends on it but the reader of a failed test.
        let _ = writeln!(file, "{at:9.3} {about}: {what}");
    }
}
