//! Walks along the bytes of an HTTP/1 connection and finds heads that our parser forgives and others read differently: a length
//! beside chunks, two lengths, an encoding that is not just chunks, lines that end without a carriage return, a target with a
//! fragment. Whoever stands before or behind us could find another end of the request, or another request.

/// As much of a line as is looked at: the names that matter with any value that is good.
const LONGEST: usize = 64;

/// Walks along a connection as its bytes come in, in whatever pieces. Heads are counted from zero.
#[derive(Debug)]
pub(super) struct Walker {
    at: At,
    head: u64,
    /// The beginning of the line so far.
    line: [u8; LONGEST],
    length: usize,
    last: u8,
    framing: Framing,
    bad: Option<u64>,
}

/// Where in a request we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before or in the first line of a head.
    Target,
    /// In another line of it.
    Head,
    /// In a body, with so many bytes to go.
    Body(u64),
    /// In the line that says how long a chunk is.
    ChunkSize,
    /// In a chunk, with so many bytes to go, its line end among them.
    Chunk(u64),
    /// Behind the last chunk.
    Trailers,
}

/// What a head says about its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length(u64),
    Chunks,
}

impl Default for Walker {
    fn default() -> Self {
        let (at, framing) = (At::Target, Framing::None);
        Self { at, head: 0, line: [0; LONGEST], length: 0, last: 0, framing, bad: None }
    }
}

impl Walker {
    /// Takes the next bytes. The number of the first head that is refused, once there is one: what comes behind it has no
    /// meaning any more.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<u64> {
        let mut rest = bytes;
        while self.bad.is_none() && !rest.is_empty() {
            rest = match self.at {
                At::Body(left) | At::Chunk(left) => self.skip(rest, left),
                At::Target | At::Head | At::ChunkSize | At::Trailers => self.take_line(rest),
            };
        }
        self.bad
    }

    fn skip<'b>(&mut self, bytes: &'b [u8], left: u64) -> &'b [u8] {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        self.at = match (self.at, left) {
            (At::Chunk(_), 0) => At::ChunkSize,
            (At::Chunk(_), left) => At::Chunk(left),
            (_, 0) => self.next_head(),
            (_, left) => At::Body(left),
        };
        bytes.get(count..).unwrap_or_default()
    }

    fn next_head(&mut self) -> At {
        self.head += 1;
        self.framing = Framing::None;
        At::Target
    }

    fn take_line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let end = memchr::memchr(b'\n', bytes);
        let piece = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        // A fragment can stand behind what is remembered of a long target.
        if self.at == At::Target && piece.contains(&b'#') {
            self.bad = Some(self.head);
        }
        // Nearly every line comes in one piece, and need not be remembered.
        if let (Some(end), 0) = (end, self.length) {
            match piece.split_last() {
                Some((b'\r', line)) => {
                    self.end_line(line.get(..LONGEST).unwrap_or(line), line.len() <= LONGEST);
                }
                _ => self.refuse(),
            }
            return bytes.get(end + 1..).unwrap_or_default();
        }
        if let (Some(free), Some(last)) = (self.line.get_mut(self.length.min(LONGEST)..), piece.last()) {
            free.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
            self.last = *last;
            self.length = self.length.saturating_add(piece.len());
        }
        let Some(end) = end else { return &[] };
        let ends_well = self.length > 0 && self.last == b'\r';
        match self.line.get(..self.length.saturating_sub(1).min(LONGEST)).filter(|_| ends_well) {
            Some(line) => {
                let mut copy = [0; LONGEST];
                copy.iter_mut().zip(line).for_each(|(to, from)| *to = *from);
                let (line, whole) = (copy.get(..line.len()).unwrap_or_default(), self.length - 1 <= LONGEST);
                self.end_line(line, whole);
            }
            None => self.refuse(),
        }
        (self.length, self.last) = (0, 0);
        bytes.get(end + 1..).unwrap_or_default()
    }

    /// In a head that one is refused; in a body, which is under way already, the next.
    fn refuse(&mut self) {
        let in_head = matches!(self.at, At::Target | At::Head);
        self.bad = Some(if in_head { self.head } else { self.head + 1 });
    }

    fn end_line(&mut self, line: &[u8], whole: bool) {
        match (self.at, line.is_empty()) {
            // Empty lines before a head are allowed.
            (At::Target, true) => {}
            (At::Target, false) => self.at = At::Head,
            (At::Head, false) => self.field(line, whole),
            (At::Head, true) => {
                self.at = match self.framing {
                    Framing::None | Framing::Length(0) => self.next_head(),
                    Framing::Length(length) => At::Body(length),
                    Framing::Chunks => At::ChunkSize,
                }
            }
            (At::ChunkSize, _) => match chunk_size(line) {
                Some(0) => self.at = At::Trailers,
                Some(size) => self.at = At::Chunk(size.saturating_add(2)),
                None => self.refuse(),
            },
            (At::Trailers, true) => self.at = self.next_head(),
            (At::Trailers | At::Body(_) | At::Chunk(_), _) => {}
        }
    }

    fn field(&mut self, line: &[u8], whole: bool) {
        if !matches!(line.first(), Some(b'c' | b'C' | b't' | b'T')) {
            return;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let said = if name.eq_ignore_ascii_case(b"content-length") {
            decimal(value).map(Framing::Length)
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            value.eq_ignore_ascii_case(b"chunked").then_some(Framing::Chunks)
        } else {
            return;
        };
        match said {
            Some(said) if whole && self.framing == Framing::None => self.framing = said,
            _ => self.refuse(),
        }
    }
}

/// Digits and nothing else: no sign, no list, and not more than everybody can count: whoever counts with a sign would read a
/// longer body, or none.
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

    /// The head that is refused, in one piece and in pieces of every size.
    fn refused(bytes: &str) -> Option<u64> {
        let whole = Walker::default().feed(bytes.as_bytes());
        for size in 1..bytes.len() {
            let mut walker = Walker::default();
            let pieces = bytes.as_bytes().chunks(size).fold(None, |_, piece| walker.feed(piece));
            assert_eq!(pieces, whole, "in pieces of {size}: {bytes:?}");
        }
        whole
    }

    const BAD: [&str; 15] = [
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

    const GOOD: [&str; 6] = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\na\nb#c",
        "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\na\nb#c\r\n1;x=\"y\"\r\na\r\n0\r\nX-T: 1\r\n\r\n",
        "GET /content-length: HTTP/1.1\r\nX-Content-Length: 5\r\nContent-Lengths: 1\r\nX: content-length: 1\r\n\r\n",
        "\r\nGET /a HTTP/1.1\r\nHost: a#b\r\n\r\n",
    ];

    /// SMUG-01, 02, 12, 21, 22; PATH-11.
    #[test]
    fn heads_that_can_be_read_in_two_ways_are_refused() {
        for head in BAD {
            assert_eq!(refused(head), Some(0), "{head:?}");
        }
        let long = format!("GET /{}#f HTTP/1.1\r\n\r\n", "a".repeat(200));
        assert_eq!(refused(&long), Some(0));
    }

    /// SMUG-23.
    #[test]
    fn they_are_found_behind_any_number_of_good_ones() {
        for good in GOOD {
            assert_eq!(refused(good), None, "{good:?}");
            for bad in BAD {
                assert_eq!(refused(&format!("{good}{good}{bad}")), Some(2), "{good:?} {bad:?}");
            }
        }
    }

    #[test]
    fn behind_chunks_that_are_none_nothing_is_believed() {
        for chunks in ["0x3\r\nabc\r\n0\r\n\r\n", "-1\r\n", "8000000000000000\r\n", "3\nabc\r\n"] {
            let bytes = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
            assert_eq!(refused(&bytes), Some(1), "{chunks:?}");
        }
    }
}
