//! A file that is written on threads: a slow disk must not keep the API from answering.

use std::fs::File;
use std::io::{self, Write as _};

use hyper::body::Bytes;
use tokio_util::task::TaskTracker;

/// A file that is being written.
pub(super) struct Writer {
    file: Option<File>,
    /// Whose threads these are: they are waited for when a task is cancelled.
    threads: TaskTracker,
}

impl Writer {
    pub(super) fn new(file: File, threads: &TaskTracker) -> Self {
        Self { file: Some(file), threads: threads.clone() }
    }

    /// Adds to it.
    pub(super) async fn write(&mut self, chunk: Bytes) -> io::Result<()> {
        self.on_thread(move |file| file.write_all(&chunk)).await
    }

    /// Puts it on disk.
    pub(super) async fn finish(mut self) -> io::Result<()> {
        self.on_thread(|file| file.sync_all()).await
    }

    async fn on_thread(
        &mut self,
        act: impl FnOnce(&mut File) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let mut file = self.file.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let acted = self.threads.spawn_blocking(move || act(&mut file).map(|()| file));
        self.file = Some(acted.await.map_err(io::Error::other)??);
        Ok(())
    }
}
