//! Reloads files periodically and compares their content: a mounted Secret is updated by swapping symbolic
//! links, which inode watches miss.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use runtime::sync;

use crate::metrics::ProxyMetrics;

/// A value that is replaced as a whole while in use.
#[derive(Debug)]
pub(crate) struct Reloadable<T> {
    value: RwLock<Arc<T>>,
    generation: AtomicU64,
}

impl<T> Reloadable<T> {
    /// Creates it with an initial value.
    pub(crate) fn new(value: T) -> Self {
        Self { value: RwLock::new(Arc::new(value)), generation: AtomicU64::new(0) }
    }

    /// Returns the value in use.
    pub(crate) fn get(&self) -> Arc<T> {
        sync::read(&self.value).clone()
    }

    /// Returns a number that changes with every replacement.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn replace(&self, value: T) {
        *sync::write(&self.value) = Arc::new(value);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

type LoadFn<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send>;

/// Files and the value loaded from them.
pub(crate) struct FileSource<T> {
    name: &'static str,
    files: Vec<PathBuf>,
    last_content: Result<Vec<Vec<u8>>, String>,
    load: LoadFn<T>,
    current: Arc<Reloadable<T>>,
    metrics: ProxyMetrics,
}

impl<T> FileSource<T> {
    /// Loads the files for the first time. A failure is an error: the proxy must not start without the value.
    pub(crate) fn open(
        name: &'static str,
        files: Vec<PathBuf>,
        metrics: &ProxyMetrics,
        load: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + 'static,
    ) -> Result<Self, String> {
        let content = read(&files)?;
        let current = Arc::new(Reloadable::new(load(&content).map_err(|error| format!("{name}: {error}"))?));
        metrics.record_reload(name, true);
        Ok(Self {
            name,
            files,
            last_content: Ok(content),
            load: Box::new(load),
            current,
            metrics: metrics.clone(),
        })
    }

    /// Returns the value in use.
    pub(crate) fn current(&self) -> Arc<Reloadable<T>> {
        self.current.clone()
    }
}

/// A set of files that can be reloaded.
pub(crate) trait Reload: Send {
    /// Reloads the files if they changed. When the new content is invalid, this is logged once and the
    /// previous value stays in use.
    fn reload(&mut self);
}

impl<T: Send + Sync> Reload for FileSource<T> {
    fn reload(&mut self) {
        let content = read(&self.files);
        if content == self.last_content {
            return;
        }
        let loaded = content.clone().and_then(|content| (self.load)(&content));
        self.metrics.record_reload(self.name, loaded.is_ok());
        match loaded {
            Ok(value) => {
                self.current.replace(value);
                tracing::info!(name = self.name, files = ?self.files, "file reloaded");
            }
            Err(error) => {
                tracing::error!(name = self.name, files = ?self.files, error, "file reload failed; keeping the previous content");
            }
        }
        self.last_content = content;
    }
}

impl<T> fmt::Debug for FileSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource")
            .field("name", &self.name)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    files
        .iter()
        .map(|file| std::fs::read(file).map_err(|error| format!("{}: {error}", file.display())))
        .collect()
}

#[cfg(test)]
mod tests {
    use runtime::metrics::Metrics;

    use super::*;

    fn open(file: &std::path::Path) -> FileSource<u32> {
        let metrics = ProxyMetrics::new(&Metrics::new());
        FileSource::open("number", vec![file.to_owned()], &metrics, |content| {
            let text =
                String::from_utf8_lossy(content.first().map(Vec::as_slice).unwrap_or_default()).into_owned();
            text.trim().parse().map_err(|_| format!("invalid number {text:?}"))
        })
        .unwrap()
    }

    #[test]
    fn invalid_content_keeps_previous_value() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two, link) = (dir.path().join("1"), dir.path().join("2"), dir.path().join("n"));
        std::fs::write(&one, "1").unwrap();
        std::fs::write(&two, "2").unwrap();
        std::os::unix::fs::symlink(&one, &link).unwrap();
        let mut source = open(&link);
        let current = source.current();
        let state = |current: &Reloadable<u32>| (*current.get(), current.generation());
        source.reload();
        assert_eq!(state(&current), (1, 0), "unchanged");
        let next = dir.path().join("next");
        std::os::unix::fs::symlink(&two, &next).unwrap();
        std::fs::rename(&next, &link).unwrap();
        source.reload();
        assert_eq!(state(&current), (2, 1), "symbolic link swapped");
        std::fs::write(&two, "two").unwrap();
        source.reload();
        assert_eq!(state(&current), (2, 1), "invalid content is not used");
        std::fs::remove_file(&link).unwrap();
        source.reload();
        assert_eq!(state(&current), (2, 1), "missing file is not used");
        std::fs::write(&link, "3").unwrap();
        source.reload();
        assert_eq!(state(&current), (3, 2));
    }

    #[test]
    fn missing_file_at_startup_is_an_error() {
        let metrics = ProxyMetrics::new(&Metrics::new());
        let missing = FileSource::<u32>::open("number", vec!["/nowhere/n".into()], &metrics, |_| Ok(1));
        assert!(missing.unwrap_err().contains("/nowhere/n"));
    }
}
