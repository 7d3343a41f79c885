//! Files that are read again and again, and compared by content: what is mounted from a Secret is replaced by swapping symbolic
//! links, which watching inodes misses.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::metrics::ProxyMetrics;

/// Something that is replaced as a whole while others use it.
#[derive(Debug)]
pub(crate) struct Current<T> {
    value: RwLock<Arc<T>>,
    generation: AtomicU64,
}

impl<T> Current<T> {
    /// Begins with this.
    pub(crate) fn new(value: T) -> Self {
        Self { value: RwLock::new(Arc::new(value)), generation: AtomicU64::new(0) }
    }

    /// What is in use now.
    pub(crate) fn get(&self) -> Arc<T> {
        self.value.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes with every replacement.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn replace(&self, value: T) {
        *self.value.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

type Load<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send>;

/// Files, and what is made of them.
pub(crate) struct Source<T> {
    what: &'static str,
    files: Vec<PathBuf>,
    seen: Result<Vec<Vec<u8>>, String>,
    load: Load<T>,
    current: Arc<Current<T>>,
    metrics: ProxyMetrics,
}

impl<T> Source<T> {
    /// Reads the files for the first time. What cannot be used now is an error, and not a reason to go on without it.
    pub(crate) fn open(
        what: &'static str,
        files: Vec<PathBuf>,
        metrics: &ProxyMetrics,
        load: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + 'static,
    ) -> Result<Self, String> {
        let content = read(&files)?;
        let current = Arc::new(Current::new(load(&content).map_err(|why| format!("the {what}: {why}"))?));
        metrics.reloaded(what, true);
        Ok(Self { what, files, seen: Ok(content), load: Box::new(load), current, metrics: metrics.clone() })
    }

    /// What is in use.
    pub(crate) fn current(&self) -> Arc<Current<T>> {
        self.current.clone()
    }
}

/// Something that looks at files from time to time.
pub(crate) trait Look: Send {
    /// Looks once. What has changed and is good is put into use; what is bad is told once, and the old stays.
    fn look(&mut self);
}

impl<T: Send + Sync> Look for Source<T> {
    fn look(&mut self) {
        let content = read(&self.files);
        if content == self.seen {
            return;
        }
        let loaded = content.clone().and_then(|content| (self.load)(&content));
        self.metrics.reloaded(self.what, loaded.is_ok());
        match loaded {
            Ok(value) => {
                self.current.replace(value);
                tracing::info!(files = ?self.files, "the {} has changed and is in use", self.what);
            }
            Err(why) => {
                tracing::error!(files = ?self.files, why, "the {} has changed and cannot be used; the old one stays", self.what);
            }
        }
        self.seen = content;
    }
}

impl<T> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("what", &self.what).field("files", &self.files).finish_non_exhaustive()
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

    fn open(file: &std::path::Path) -> Source<u32> {
        let metrics = ProxyMetrics::new(&Metrics::new());
        Source::open("number", vec![file.to_owned()], &metrics, |content| {
            let text =
                String::from_utf8_lossy(content.first().map(Vec::as_slice).unwrap_or_default()).into_owned();
            text.trim().parse().map_err(|_| format!("{text:?} is no number"))
        })
        .unwrap()
    }

    /// TLS-05, TLS-06, X509-06: by content, whatever happens to inodes and links; a bad one keeps the old.
    #[test]
    fn what_is_good_is_used_and_what_is_bad_keeps_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two, link) = (folder.path().join("1"), folder.path().join("2"), folder.path().join("n"));
        std::fs::write(&one, "1").unwrap();
        std::fs::write(&two, "2").unwrap();
        std::os::unix::fs::symlink(&one, &link).unwrap();
        let mut source = open(&link);
        let current = source.current();
        let is = |current: &Current<u32>| (*current.get(), current.generation());
        source.look();
        assert_eq!(is(&current), (1, 0), "nothing has changed");
        let next = folder.path().join("next");
        std::os::unix::fs::symlink(&two, &next).unwrap();
        std::fs::rename(&next, &link).unwrap();
        source.look();
        assert_eq!(is(&current), (2, 1), "the link was swapped");
        std::fs::write(&two, "two").unwrap();
        source.look();
        assert_eq!(is(&current), (2, 1), "what is bad is not used");
        std::fs::remove_file(&link).unwrap();
        source.look();
        assert_eq!(is(&current), (2, 1), "what is missing is not used");
        std::fs::write(&link, "3").unwrap();
        source.look();
        assert_eq!(is(&current), (3, 2));
    }

    #[test]
    fn what_is_bad_at_the_start_is_an_error() {
        let metrics = ProxyMetrics::new(&Metrics::new());
        let missing = Source::<u32>::open("number", vec!["/nowhere/n".into()], &metrics, |_| Ok(1));
        assert!(missing.unwrap_err().contains("/nowhere/n"));
    }
}
