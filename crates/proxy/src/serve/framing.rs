//! Scans HTTP/1 bytes for heads that the parser tolerates but other parsers read differently: a length and
//! chunked encoding, several lengths, encodings other than `chunked`, lines without a carriage return, a
//! target with a fragment. A proxy in front of us or the upstream could find a different end of the request,
//! or another request (request smuggling).

/// Bytes of a line that are examined: enough for the relevant names with any valid value.
const LINE_PREFIX: usize = 64;

/// Scans a connection as its bytes arrive, in pieces of any size. Heads are counted from zero.
#[derive(Debug)]
pub(super) struct FramingScanner {
    position: Position,
    head_number: u64,
    /// Start of the current line.
    line: [u8; LINE_PREFIX],
    length: usize,
    last_byte: u8,
    framing: Framing,
    rejected: Option<u64>,
}

/// Position within a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Before or in the request line.
    Target,
    /// In a header line.
    Head,
    /// In a body with this many bytes left.
    Body(u64),
    /// In a chunk-size line.
    ChunkSize,
    /// In a chunk with this many bytes left, including its line end.
    Chunk(u64),
    /// After the last chunk.
    Trailers,
}

/// Body framing announced by a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length(u64),
    Chunked,
}

impl Default for FramingScanner {
    fn default() -> Self {
        let (position, framing) = (Position::Target, Framing::None);
        Self {
            position,
            head_number: 0,
            line: [0; LINE_PREFIX],
            length: 0,
            last_byte: 0,
            framing,
            rejected: None,
        }
    }
}

impl FramingScanner {
    /// Scans the next bytes. Returns the number of the first rejected head; bytes after it are not
    /// interpreted.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Option<u64> {
        let mut rest = bytes;
        while self.rejected.is_none() && !rest.is_empty() {
            rest = match self.position {
                Position::Body(left) | Position::Chunk(left) => self.skip(rest, left),
                Position::Target | Position::Head | Position::ChunkSize | Position::Trailers => {
                    self.take_line(rest)
                }
            };
        }
        self.rejected
    }

    fn skip<'b>(&mut self, bytes: &'b [u8], left: u64) -> &'b [u8] {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        self.position = match (self.position, left) {
            (Position::Chunk(_), 0) => Position::ChunkSize,
            (Position::Chunk(_), left) => Position::Chunk(left),
            (_, 0) => self.next_head(),
            (_, left) => Position::Body(left),
        };
        bytes.get(count..).unwrap_or_default()
    }

    fn next_head(&mut self) -> Position {
        self.head_number += 1;
        self.framing = Framing::None;
        Position::Target
    }

    fn take_line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let end = memchr::memchr(b'\n', bytes);
        let piece = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        // In a long target, the fragment can lie beyond the part kept in `line`.
        if self.position == Position::Target && piece.contains(&b'#') {
            self.rejected = Some(self.head_number);
        }
        // Fast path: nearly every line arrives in one piece and needs no copy.
        if let (Some(end), 0) = (end, self.length) {
            match piece.split_last() {
                Some((b'\r', line)) => {
                    self.end_line(line.get(..LINE_PREFIX).unwrap_or(line), line.len() <= LINE_PREFIX);
                }
                _ => self.reject(),
            }
            return bytes.get(end + 1..).unwrap_or_default();
        }
        if let (Some(free), Some(last_byte)) =
            (self.line.get_mut(self.length.min(LINE_PREFIX)..), piece.last())
        {
            free.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
            self.last_byte = *last_byte;
            self.length = self.length.saturating_add(piece.len());
        }
        let Some(end) = end else { return &[] };
        let ends_well = self.length > 0 && self.last_byte == b'\r';
        match self.line.get(..self.length.saturating_sub(1).min(LINE_PREFIX)).filter(|_| ends_well) {
            Some(line) => {
                let mut copy = [0; LINE_PREFIX];
                copy.iter_mut().zip(line).for_each(|(to, from)| *to = *from);
                let (line, is_complete) =
                    (copy.get(..line.len()).unwrap_or_default(), self.length - 1 <= LINE_PREFIX);
                self.end_line(line, is_complete);
            }
            None => self.reject(),
        }
        (self.length, self.last_byte) = (0, 0);
        bytes.get(end + 1..).unwrap_or_default()
    }

    /// Rejects the current head; within a body, whose request is already in flight, the next one.
    fn reject(&mut self) {
        let in_head = matches!(self.position, Position::Target | Position::Head);
        self.rejected = Some(if in_head { self.head_number } else { self.head_number + 1 });
    }

    fn end_line(&mut self, line: &[u8], is_complete: bool) {
        match (self.position, line.is_empty()) {
            // Empty lines before the request line are allowed.
            (Position::Target, true) => {}
            (Position::Target, false) => self.position = Position::Head,
            (Position::Head, false) => self.read_framing_header(line, is_complete),
            (Position::Head, true) => {
                self.position = match self.framing {
                    Framing::None | Framing::Length(0) => self.next_head(),
                    Framing::Length(length) => Position::Body(length),
                    Framing::Chunked => Position::ChunkSize,
                }
            }
            (Position::ChunkSize, _) => match chunk_size(line) {
                Some(0) => self.position = Position::Trailers,
                Some(size) => self.position = Position::Chunk(size.saturating_add(2)),
                None => self.reject(),
            },
            (Position::Trailers, true) => self.position = self.next_head(),
            (Position::Trailers | Position::Body(_) | Position::Chunk(_), _) => {}
        }
    }

    fn read_framing_header(&mut self, line: &[u8], is_complete: bool) {
        if !matches!(line.first(), Some(b'c' | b'C' | b't' | b'T')) {
            return;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let framing = if name.eq_ignore_ascii_case(b"content-length") {
            decimal(value).map(Framing::Length)
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            value.eq_ignore_ascii_case(b"chunked").then_some(Framing::Chunked)
        } else {
            return;
        };
        match framing {
            Some(framing) if is_complete && self.framing == Framing::None => self.framing = framing,
            _ => self.reject(),
        }
    }
}

/// Digits only: no sign and no list. Values above `i64::MAX` are rejected, because a signed parser would read
/// a different length.
fn decimal(text: &[u8]) -> Option<u64> {
    let digits =
        std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|length| i64::try_from(*length).is_ok())
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let digits =
        std::str::from_utf8(size).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok().filter(|size| i64::try_from(*size).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rejected head. Scans the bytes at once and in pieces of every size.
    fn first_rejected(bytes: &str) -> Option<u64> {
        let is_complete = FramingScanner::default().scan(bytes.as_bytes());
        for size in 1..bytes.len() {
            let mut scanner = FramingScanner::default();
            let pieces = bytes.as_bytes().chunks(size).fold(None, |_, piece| scanner.scan(piece));
            assert_eq!(pieces, is_complete, "in pieces of {size}: {bytes:?}");
        }
        is_complete
    }

    const AMBIGUOUS: [&str; 15] = [
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\nHost: a\r\ncontent-length: 5\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 9223372036854775808\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET /open#f HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /open?q=1#f HTTP/1.1\r\nHost: a\r\n\r\n",
    ];

    const VALID: [&str; 6] = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\na\nb#c",
        "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\na\nb#c\r\n1;x=\"y\"\r\na\r\n0\r\nX-T: 1\r\n\r\n",
        "GET /content-length: HTTP/1.1\r\nX-Content-Length: 5\r\nContent-Lengths: 1\r\nX: content-length: 1\r\n\r\n",
        "\r\nGET /a HTTP/1.1\r\nHost: a#b\r\n\r\n",
    ];

    #[test]
    fn ambiguous_heads_are_rejected() {
        for head in AMBIGUOUS {
            assert_eq!(first_rejected(head), Some(0), "{head:?}");
        }
        let long = format!("GET /{}#f HTTP/1.1\r\n\r\n", "a".repeat(200));
        assert_eq!(first_rejected(&long), Some(0));
    }

    #[test]
    fn ambiguous_head_is_found_after_valid_requests() {
        for valid in VALID {
            assert_eq!(first_rejected(valid), None, "{valid:?}");
            for ambiguous in AMBIGUOUS {
                let bytes = format!("{valid}{valid}{ambiguous}");
                assert_eq!(first_rejected(&bytes), Some(2), "{valid:?} {ambiguous:?}");
            }
        }
    }

    #[test]
    fn request_after_malformed_chunk_is_rejected() {
        for chunks in ["0x3\r\nabc\r\n0\r\n\r\n", "-1\r\n", "8000000000000000\r\n", "3\nabc\r\n"] {
            let bytes = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
            assert_eq!(first_rejected(&bytes), Some(1), "{chunks:?}");
        }
    }
}
