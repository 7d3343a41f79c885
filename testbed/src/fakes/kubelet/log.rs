//! Log of what the fake kubelet did, for debugging failed tests.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use crate::error::{IoContext, Result};
use crate::sync::lock;

/// A log file, truncated when opened.
#[derive(Debug)]
pub(super) struct Log {
    file: Mutex<File>,
    started: Instant,
}

impl Log {
    pub(super) fn create(path: &Path) -> Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).context(|| format!("creating {}", folder.display()))?;
        }
        let file = File::create(path).context(|| format!("creating {}", path.display()))?;
        Ok(Self { file: Mutex::new(file), started: Instant::now() })
    }

    /// Writes one line.
    pub(super) fn record(&self, subject: impl Display, message: impl Display) {
        let mut file = lock(&self.file);
        let at = self.started.elapsed().as_secs_f64();
        // A lost line only costs debugging information.
        let _ = writeln!(file, "{at:9.3} {subject}: {message}");
    }
}
