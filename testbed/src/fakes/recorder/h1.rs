//! HTTP/1, parsed by hand.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Shared;
use super::reply::{ConnectionAction, Reply, Step};
use super::request::RecordedRequest;

/// Larger than any test sends.
const HEAD_LIMIT: usize = 4 << 20;

/// One connection.
struct Connection<S> {
    stream: S,
    buffer: Vec<u8>,
    shared: Arc<Shared>,
}

/// Serves requests until the connection ends.
pub(super) async fn serve<S>(stream: S, prefix: Vec<u8>, shared: Arc<Shared>, number: u64, certificate: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = Connection { stream, buffer: prefix, shared };
    // A broken connection ends the loop; there is no one left to report to.
    while let Ok(Some(mut request)) = connection.read_head().await {
        (request.connection, request.has_client_certificate) = (number, certificate);
        let reply = connection.shared.reply(&request);
        let index = connection.shared.push(request.clone());
        match connection.exchange(request, index, &reply).await {
            Ok(true) => {}
            _ => return,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Reads the next head; `None` if the connection ended.
    async fn read_head(&mut self) -> std::io::Result<Option<RecordedRequest>> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            if self.buffer.len() > HEAD_LIMIT || !self.fill_buffer().await? {
                return Ok(None);
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.trim_end_matches("\r\n").split("\r\n");
        let mut first = lines.next().unwrap_or_default().splitn(3, ' ');
        let mut word = || first.next().unwrap_or_default().to_owned();
        let (method, target, version) = (word(), word(), word());
        let headers = lines.map(parse_header).collect();
        Ok(Some(RecordedRequest {
            head: head.clone(),
            method,
            target,
            version,
            headers,
            ..RecordedRequest::default()
        }))
    }

    /// Reads the body and responds; false if the connection must not be reused.
    async fn exchange(
        &mut self,
        mut request: RecordedRequest,
        index: usize,
        reply: &Reply,
    ) -> std::io::Result<bool> {
        let expects =
            request.header_values("expect").iter().any(|value| value.eq_ignore_ascii_case("100-continue"));
        if expects && reply.send_continue {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if reply.read_body_first {
            self.read_body(&mut request, index).await?;
        }
        for step in &reply.steps {
            if !self.run_step(step, index).await? {
                self.shared.update(index, |request| request.abandoned = true);
                return Ok(false);
            }
        }
        self.stream.flush().await?;
        match reply.after {
            ConnectionAction::KeepAlive if !reply.read_body_first => {
                self.read_body(&mut request, index).await?;
                Ok(true)
            }
            ConnectionAction::KeepAlive => Ok(true),
            ConnectionAction::Close => {
                self.stream.shutdown().await?;
                Ok(false)
            }
            // Dropped without shutdown: the kernel resets a connection that is closed with unread bytes.
            ConnectionAction::Reset => Ok(false),
            ConnectionAction::Echo => self.echo(index).await.map(|()| false),
        }
    }

    async fn run_step(&mut self, step: &Step, index: usize) -> std::io::Result<bool> {
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
                        self.shared.update(index, |request| request.abandoned = true);
                        return Ok(false);
                    }
                    left -= count;
                }
            }
            Step::Pause(time) => return self.wait_while_connected(tokio::time::sleep(*time)).await,
            Step::Until(notify) => {
                let notified = notify.clone();
                return self.wait_while_connected(async move { notified.notified().await }).await;
            }
        }
        Ok(true)
    }

    /// Waits; returns false if the client disconnected meanwhile.
    async fn wait_while_connected(&mut self, wait: impl Future<Output = ()>) -> std::io::Result<bool> {
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

    async fn read_body(&mut self, request: &mut RecordedRequest, index: usize) -> std::io::Result<()> {
        let chunked =
            request.header_values("transfer-encoding").iter().any(|value| value.contains("chunked"));
        let length = request
            .header_values("content-length")
            .first()
            .and_then(|value| value.trim().parse::<u64>().ok());
        let complete = if chunked {
            self.read_chunks(request).await?
        } else {
            self.read_bytes(request, length.unwrap_or(0)).await?
        };
        request.complete = complete;
        let RecordedRequest { body, length, trailers, .. } = request.clone();
        self.shared.update(index, |recorded| {
            (recorded.body, recorded.length, recorded.trailers) = (body, length, trailers);
            recorded.complete = complete;
        });
        if complete { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
    }

    async fn read_bytes(&mut self, request: &mut RecordedRequest, mut left: u64) -> std::io::Result<bool> {
        while left > 0 {
            if self.buffer.is_empty() && !self.fill_buffer().await? {
                return Ok(false);
            }
            let count = left.min(self.buffer.len() as u64);
            let bytes: Vec<u8> = self.buffer.drain(..count as usize).collect();
            request.append_body(&bytes);
            left -= count;
        }
        Ok(true)
    }

    async fn read_chunks(&mut self, request: &mut RecordedRequest) -> std::io::Result<bool> {
        loop {
            let Some(line) = self.read_line().await? else { return Ok(false) };
            let size = line.split(';').next().unwrap_or_default().trim();
            let Ok(size) = u64::from_str_radix(size, 16) else { return Ok(false) };
            if size == 0 {
                break;
            }
            if !self.read_bytes(request, size).await? || self.read_line().await?.is_none() {
                return Ok(false);
            }
        }
        loop {
            match self.read_line().await? {
                None => return Ok(false),
                Some(line) if line.is_empty() => return Ok(true),
                Some(line) => request.trailers.push(parse_header(&line)),
            }
        }
    }

    async fn read_line(&mut self) -> std::io::Result<Option<String>> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if !self.fill_buffer().await? {
                return Ok(None);
            }
        }
    }

    /// Echoes received bytes. On EOF it sends a final message, which a client that closed only its write half still
    /// receives.
    async fn echo(&mut self, index: usize) -> std::io::Result<()> {
        loop {
            if !self.buffer.is_empty() {
                let bytes = std::mem::take(&mut self.buffer);
                self.shared.update(index, |request| request.tunneled.extend_from_slice(&bytes));
                self.stream.write_all(&bytes).await?;
                self.stream.flush().await?;
            }
            if !self.fill_buffer().await? {
                self.shared.update(index, |request| request.abandoned = true);
                // Delay the shutdown: closing at once could turn the final message into a reset.
                let _ = self.stream.write_all(b"last word").await;
                let _ = self.stream.flush().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
                return self.stream.shutdown().await;
            }
        }
    }

    /// Reads more bytes; false at EOF.
    async fn fill_buffer(&mut self) -> std::io::Result<bool> {
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

fn parse_header(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    (name.to_owned(), value.trim().to_owned())
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}
