//! A file written on blocking threads, so that a slow disk does not stall the API.

use std::fs::File;
use std::io::{self, Write as _};

use hyper::body::Bytes;
use tokio_util::task::TaskTracker;

/// A file opened for writing.
pub(super) struct Writer {
    file: Option<File>,
    /// Threads of the task: the engine waits for them after cancellation.
    threads: TaskTracker,
}

impl Writer {
    pub(super) fn new(file: File, threads: &TaskTracker) -> Self {
        Self { file: Some(file), threads: threads.clone() }
    }

    /// Appends bytes.
    pub(super) async fn write(&mut self, chunk: Bytes) -> io::Result<()> {
        self.on_thread(move |file| file.write_all(&chunk)).await
    }

    /// Syncs the file.
    pub(super) async fn finish(mut self) -> io::Result<()> {
        self.on_thread(|file| file.sync_all()).await
    }

    async fn on_thread(
        &mut self,
        operation: impl FnOnce(&mut File) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let mut file = self.file.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let result = self.threads.spawn_blocking(move || operation(&mut file).map(|()| file));
        self.file = Some(result.await.map_err(io::Error::other)??);
        Ok(())
    }
}
