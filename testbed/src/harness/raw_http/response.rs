//! HTTP/1 responses, parsed by hand.

use tokio::io::AsyncReadExt;

use super::Transport;
use crate::error::{Error, IoContext, Result};

/// One response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawResponse {
    /// Status code.
    pub status: u16,
    /// Status line.
    pub status_line: String,
    /// Header fields in order.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
    /// Trailer fields.
    pub trailers: Vec<(String, String)>,
    /// Codes of preceding interim responses, such as 100 and 103.
    pub interim: Vec<u16>,
    /// Whether the body was received completely.
    pub complete: bool,
}

impl RawResponse {
    /// Returns the first value of a header field.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        line.map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(super) async fn read(
    stream: &mut dyn Transport,
    buffer: &mut Vec<u8>,
    method: &str,
) -> Result<RawResponse> {
    let mut source = Source { stream, buffer };
    let mut interim = Vec::new();
    loop {
        let mut response = source.read_head().await?;
        if (100..200).contains(&response.status) && response.status != 101 {
            interim.push(response.status);
            continue;
        }
        response.interim = interim;
        source.read_body(&mut response, method).await?;
        return Ok(response);
    }
}

struct Source<'a> {
    stream: &'a mut dyn Transport,
    buffer: &'a mut Vec<u8>,
}

impl Source<'_> {
    async fn fill_buffer(&mut self) -> Result<bool> {
        let count = self.stream.read_buf(self.buffer).await.context(|| "reading a response".to_owned())?;
        Ok(count > 0)
    }

    async fn read_line(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if !self.fill_buffer().await? {
                return Ok(None);
            }
        }
    }

    async fn read_head(&mut self) -> Result<RawResponse> {
        let Some(line) = self.read_line().await? else {
            return Err(Error::Other("connection closed without a response".into()));
        };
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| Error::Other(format!("{line:?} is not a status line")))?;
        let mut response = RawResponse { status, status_line: line, ..RawResponse::default() };
        loop {
            match self.read_line().await? {
                None => return Err(Error::Other("connection closed within the response head".into())),
                Some(line) if line.is_empty() => return Ok(response),
                Some(line) => response.headers.push(parse_header(&line)),
            }
        }
    }

    async fn read_body(&mut self, response: &mut RawResponse, method: &str) -> Result<()> {
        let no_body = method == "HEAD" || matches!(response.status, 101 | 204 | 304);
        let chunked = response.header("transfer-encoding").is_some_and(|value| value.contains("chunked"));
        let length = response.header("content-length").and_then(|value| value.parse::<usize>().ok());
        response.complete = if no_body {
            true
        } else if chunked {
            self.read_chunks(response).await?
        } else if let Some(length) = length {
            self.read_bytes(&mut response.body, length).await?
        } else {
            while self.fill_buffer().await? {}
            response.body = std::mem::take(self.buffer);
            true
        };
        Ok(())
    }

    /// A connection that breaks in the body yields a partial body, which is a result and not an error.
    async fn read_bytes(&mut self, body: &mut Vec<u8>, mut left: usize) -> Result<bool> {
        while left > 0 {
            if self.buffer.is_empty() && !self.fill_buffer().await.unwrap_or(false) {
                return Ok(false);
            }
            let count = left.min(self.buffer.len());
            body.extend(self.buffer.drain(..count));
            left -= count;
        }
        Ok(true)
    }

    async fn read_chunks(&mut self, response: &mut RawResponse) -> Result<bool> {
        loop {
            let Some(line) = self.read_line().await.unwrap_or(None) else { return Ok(false) };
            let size = line.split(';').next().unwrap_or_default().trim();
            let Ok(size) = usize::from_str_radix(size, 16) else { return Ok(false) };
            if size == 0 {
                break;
            }
            if !self.read_bytes(&mut response.body, size).await?
                || self.read_line().await.unwrap_or(None).is_none()
            {
                return Ok(false);
            }
        }
        loop {
            match self.read_line().await.unwrap_or(None) {
                None => return Ok(false),
                Some(line) if line.is_empty() => return Ok(true),
                Some(line) => response.trailers.push(parse_header(&line)),
            }
        }
    }
}

fn parse_header(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    (name.to_owned(), value.trim().to_owned())
}
