//! HTTP/1 answers, read by hand.

use tokio::io::AsyncReadExt;

use super::Transport;
use crate::error::{Error, IoContext, Result};

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The code.
    pub status: u16,
    /// The line it came with.
    pub line: String,
    /// Header lines in their order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Trailer lines.
    pub trailers: Vec<(String, String)>,
    /// Codes of the answers before it: 100, 103.
    pub interim: Vec<u16>,
    /// The body came to its end.
    pub complete: bool,
}

impl Answer {
    /// The first value of a header, or nothing.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        line.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(super) async fn read(stream: &mut dyn Transport, buffer: &mut Vec<u8>, method: &str) -> Result<Answer> {
    let mut source = Source { stream, buffer };
    let mut interim = Vec::new();
    loop {
        let mut answer = source.head().await?;
        if (100..200).contains(&answer.status) && answer.status != 101 {
            interim.push(answer.status);
            continue;
        }
        answer.interim = interim;
        source.body(&mut answer, method).await?;
        return Ok(answer);
    }
}

struct Source<'a> {
    stream: &'a mut dyn Transport,
    buffer: &'a mut Vec<u8>,
}

impl Source<'_> {
    async fn more(&mut self) -> Result<bool> {
        let count = self.stream.read_buf(self.buffer).await.context(|| "reading an answer".to_owned())?;
        Ok(count > 0)
    }

    async fn line(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    async fn head(&mut self) -> Result<Answer> {
        let Some(line) = self.line().await? else {
            return Err(Error::Refused("the connection was closed without an answer".into()));
        };
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| Error::Refused(format!("{line:?} begins no answer")))?;
        let mut answer = Answer { status, line, ..Answer::default() };
        loop {
            match self.line().await? {
                None => return Err(Error::Refused("the connection was closed within a head".into())),
                Some(line) if line.is_empty() => return Ok(answer),
                Some(line) => answer.headers.push(header(&line)),
            }
        }
    }

    async fn body(&mut self, answer: &mut Answer, method: &str) -> Result<()> {
        let none = method == "HEAD" || matches!(answer.status, 101 | 204 | 304);
        let chunked = answer.header("transfer-encoding").is_some_and(|value| value.contains("chunked"));
        let length = answer.header("content-length").and_then(|value| value.parse::<usize>().ok());
        answer.complete = if none {
            true
        } else if chunked {
            self.chunks(answer).await?
        } else if let Some(length) = length {
            self.bytes(&mut answer.body, length).await?
        } else {
            while self.more().await? {}
            answer.body = std::mem::take(self.buffer);
            true
        };
        Ok(())
    }

    /// A connection that breaks within a body leaves half of it: that is an observation, and no error.
    async fn bytes(&mut self, body: &mut Vec<u8>, mut left: usize) -> Result<bool> {
        while left > 0 {
            if self.buffer.is_empty() && !self.more().await.unwrap_or(false) {
                return Ok(false);
            }
            let count = left.min(self.buffer.len());
            body.extend(self.buffer.drain(..count));
            left -= count;
        }
        Ok(true)
    }

    async fn chunks(&mut self, answer: &mut Answer) -> Result<bool> {
        loop {
            let Some(line) = self.line().await.unwrap_or(None) else { return Ok(false) };
            let size = line.split(';').next().unwrap_or_default().trim();
            let Ok(size) = usize::from_str_radix(size, 16) else { return Ok(false) };
            if size == 0 {
                break;
            }
            if !self.bytes(&mut answer.body, size).await? || self.line().await.unwrap_or(None).is_none() {
                return Ok(false);
            }
        }
        loop {
            match self.line().await.unwrap_or(None) {
                None => return Ok(false),
                Some(line) if line.is_empty() => return Ok(true),
                Some(line) => answer.trailers.push(header(&line)),
            }
        }
    }
}

fn header(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    (name.to_owned(), value.trim().to_owned())
}
