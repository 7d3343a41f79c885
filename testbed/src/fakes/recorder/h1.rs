//! HTTP/1 by hand.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Shared;
use super::reply::{After, Reply, Step};
use super::seen::Seen;

/// Larger heads than any test sends.
const HEAD_LIMIT: usize = 4 << 20;

/// One connection.
struct Connection<S> {
    stream: S,
    buffer: Vec<u8>,
    shared: Arc<Shared>,
}

/// Reads requests and answers them until the connection ends.
pub(super) async fn serve<S>(stream: S, begin: Vec<u8>, shared: Arc<Shared>, number: u64, certificate: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = Connection { stream, buffer: begin, shared };
    // A connection that breaks has nobody who could be told.
    while let Ok(Some(mut seen)) = connection.head().await {
        (seen.connection, seen.certificate) = (number, certificate);
        let reply = connection.shared.reply(&seen);
        let index = connection.shared.note(seen.clone());
        match connection.exchange(seen, index, &reply).await {
            Ok(true) => {}
            _ => return,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// The next head, or nothing when the connection ended before one.
    async fn head(&mut self) -> std::io::Result<Option<Seen>> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            if self.buffer.len() > HEAD_LIMIT || !self.more().await? {
                return Ok(None);
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.trim_end_matches("\r\n").split("\r\n");
        let mut first = lines.next().unwrap_or_default().splitn(3, ' ');
        let mut word = || first.next().unwrap_or_default().to_owned();
        let (method, target, version) = (word(), word(), word());
        let headers = lines.map(header).collect();
        Ok(Some(Seen { head: head.clone(), method, target, version, headers, ..Seen::default() }))
    }

    /// Reads the body and answers; false when the connection is not to be used again.
    async fn exchange(&mut self, mut seen: Seen, index: usize, reply: &Reply) -> std::io::Result<bool> {
        let expects = seen.all("expect").iter().any(|value| value.eq_ignore_ascii_case("100-continue"));
        if expects && reply.continues {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if reply.body_first {
            self.body(&mut seen, index).await?;
        }
        for step in &reply.steps {
            if !self.step(step, index).await? {
                self.shared.update(index, |seen| seen.abandoned = true);
                return Ok(false);
            }
        }
        self.stream.flush().await?;
        match reply.after {
            After::KeepAlive if !reply.body_first => {
                self.body(&mut seen, index).await?;
                Ok(true)
            }
            After::KeepAlive => Ok(true),
            After::Close => {
                self.stream.shutdown().await?;
                Ok(false)
            }
            // The kernel resets a connection that is closed with bytes unread; the recorder's own way is to say nothing more.
            After::Reset => Ok(false),
            After::Echo => self.echo(index).await.map(|()| false),
        }
    }

    async fn step(&mut self, step: &Step, index: usize) -> std::io::Result<bool> {
        match step {
            Step::Write(bytes) => {
                self.stream.write_all(bytes).await?;
                self.stream.flush().await?;
            }
            Step::Flood(length) => {
                let zeros = vec![0; 64 * 1024];
                let mut left = *length;
                while left > 0 {
                    let count = left.min(zeros.len() as u64);
                    if self.stream.write_all(&zeros[..count as usize]).await.is_err() {
                        self.shared.update(index, |seen| seen.abandoned = true);
                        return Ok(false);
                    }
                    left -= count;
                }
            }
            Step::Pause(time) => return self.still_there(tokio::time::sleep(*time)).await,
            Step::Until(notify) => {
                let notified = notify.clone();
                return self.still_there(async move { notified.notified().await }).await;
            }
        }
        Ok(true)
    }

    /// Waits, and tells whether the other side did so too.
    async fn still_there(&mut self, wait: impl Future<Output = ()>) -> std::io::Result<bool> {
        tokio::pin!(wait);
        loop {
            tokio::select! {
                biased;
                () = &mut wait => return Ok(true),
                read = self.stream.read_buf(&mut self.buffer) => if read.map_or(true, |count| count == 0) {
                    return Ok(false);
                },
            }
        }
    }

    async fn body(&mut self, seen: &mut Seen, index: usize) -> std::io::Result<()> {
        let chunked = seen.all("transfer-encoding").iter().any(|value| value.contains("chunked"));
        let length = seen.all("content-length").first().and_then(|value| value.trim().parse::<u64>().ok());
        let complete =
            if chunked { self.chunks(seen).await? } else { self.bytes(seen, length.unwrap_or(0)).await? };
        seen.complete = complete;
        let Seen { body, length, trailers, .. } = seen.clone();
        self.shared.update(index, |noted| {
            (noted.body, noted.length, noted.trailers) = (body, length, trailers);
            noted.complete = complete;
        });
        if complete { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
    }

    async fn bytes(&mut self, seen: &mut Seen, mut left: u64) -> std::io::Result<bool> {
        while left > 0 {
            if self.buffer.is_empty() && !self.more().await? {
                return Ok(false);
            }
            let count = left.min(self.buffer.len() as u64);
            let bytes: Vec<u8> = self.buffer.drain(..count as usize).collect();
            seen.keep(&bytes);
            left -= count;
        }
        Ok(true)
    }

    async fn chunks(&mut self, seen: &mut Seen) -> std::io::Result<bool> {
        loop {
            let Some(line) = self.line().await? else { return Ok(false) };
            let size = line.split(';').next().unwrap_or_default().trim();
            let Ok(size) = u64::from_str_radix(size, 16) else { return Ok(false) };
            if size == 0 {
                break;
            }
            if !self.bytes(seen, size).await? || self.line().await?.is_none() {
                return Ok(false);
            }
        }
        loop {
            match self.line().await? {
                None => return Ok(false),
                Some(line) if line.is_empty() => return Ok(true),
                Some(line) => seen.trailers.push(header(&line)),
            }
        }
    }

    async fn line(&mut self) -> std::io::Result<Option<String>> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Sends back what comes. An end of what comes is answered with a last word: whoever has only closed one half hears it.
    async fn echo(&mut self, index: usize) -> std::io::Result<()> {
        loop {
            if !self.buffer.is_empty() {
                let bytes = std::mem::take(&mut self.buffer);
                self.shared.update(index, |seen| seen.tunnelled.extend_from_slice(&bytes));
                self.stream.write_all(&bytes).await?;
                self.stream.flush().await?;
            }
            if !self.more().await? {
                self.shared.update(index, |seen| seen.abandoned = true);
                // Given time to be heard: closed at once, it could arrive as a reset.
                let _ = self.stream.write_all(b"last word").await;
                let _ = self.stream.flush().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
                return self.stream.shutdown().await;
            }
        }
    }

    /// Reads more; false at the end.
    async fn more(&mut self) -> std::io::Result<bool> {
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

fn header(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    (name.to_owned(), value.trim().to_owned())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
