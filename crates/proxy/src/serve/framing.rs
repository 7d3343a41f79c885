//! Looks at the bytes of heads for what our parser forgives and others read differently: a length beside chunks, two lengths, an
//! encoding that is not chunked alone, lines that end without a carriage return, a target with a fragment or with bytes beyond
//! ASCII. Whoever stands before or behind us could find another end of the request, or another target.
//!
//! It follows bodies to their ends: the head of a request that comes in one breath with another is looked at too.

/// How much of a line is kept: the names that matter, and every value of theirs that is not refused anyway.
const KEPT: usize = 64;

const LENGTH: &[u8] = b"content-length:";
const ENCODING: &[u8] = b"transfer-encoding:";

/// What the next byte is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    /// A body, so many bytes before its end.
    Body(u64),
    /// The line before a chunk, whose digits so far have this value.
    Size(Option<u64>),
    /// What stands behind the digits of that line.
    Extension(u64),
    /// A chunk with the end of its line, so many bytes before the next one.
    Chunk(u64),
    Trailers,
    /// What our parser does not read either.
    Lost,
}

/// A head that is refused.
struct Refused;

/// Walks along the requests of a connection as they come in, in whatever pieces.
#[derive(Debug)]
pub(super) struct Scanner {
    place: Place,
    /// The beginning of the line so far, in lower case.
    line: [u8; KEPT],
    length: usize,
    ends_with_return: bool,
    lengths: u8,
    encodings: u8,
    body: u64,
    /// The first line has come: before it, empty ones are allowed.
    begun: bool,
    /// How many heads have begun.
    heads: u32,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            place: Place::Head,
            line: [0; KEPT],
            length: 0,
            ends_with_return: false,
            lengths: 0,
            encodings: 0,
            body: 0,
            begun: false,
            heads: 0,
        }
    }
}

impl Scanner {
    /// Takes the next bytes. Says which head is refused, counted from one, when one is; nothing behind it is looked at.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<u32> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match self.place {
                Place::Head => match self.head(rest) {
                    Ok(rest) => rest,
                    Err(Refused) => {
                        self.place = Place::Lost;
                        return Some(self.heads + u32::from(!self.begun));
                    }
                },
                Place::Body(left) => self.skip(rest, left, Place::Body, Place::Head),
                Place::Chunk(left) => self.skip(rest, left, Place::Chunk, Place::Size(None)),
                Place::Size(value) => self.size(rest, value),
                Place::Extension(size) => self.extension(rest, size),
                Place::Trailers => self.trailers(rest),
                Place::Lost => return None,
            };
        }
        None
    }

    /// Goes on to the end of a line.
    fn head<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Refused> {
        let (piece, rest) = line(bytes);
        if !self.begun && piece.iter().any(|byte| *byte == b'#' || *byte > b'~') {
            return Err(Refused);
        }
        self.take(piece);
        let Some(rest) = rest else { return Ok(&[]) };
        if !self.ends_with_return {
            return Err(Refused);
        }
        match (self.length == 1, self.begun) {
            (true, true) => self.end_head(),
            (true, false) => {}
            (false, true) => self.header()?,
            (false, false) => (self.begun, self.heads) = (true, self.heads.wrapping_add(1)),
        }
        (self.length, self.ends_with_return) = (0, false);
        Ok(rest)
    }

    fn header(&mut self) -> Result<(), Refused> {
        let kept = self.line.get(..self.length.min(KEPT)).unwrap_or_default();
        if let Some(value) = kept.strip_prefix(LENGTH) {
            self.lengths += 1;
            let value = std::str::from_utf8(value.trim_ascii()).unwrap_or_default();
            // Longer ones were cut off; nobody means them.
            self.body = value.parse().ok().filter(|_| self.length <= KEPT).ok_or(Refused)?;
        } else if let Some(value) = kept.strip_prefix(ENCODING) {
            self.encodings += 1;
            if value.trim_ascii() != b"chunked" {
                return Err(Refused);
            }
        }
        if self.lengths + self.encodings > 1 { Err(Refused) } else { Ok(()) }
    }

    fn end_head(&mut self) {
        self.place = match (self.encodings, self.body) {
            (0, 0) => Place::Head,
            (0, length) => Place::Body(length),
            _ => Place::Size(None),
        };
        (self.lengths, self.encodings, self.body, self.begun) = (0, 0, 0, false);
    }

    fn skip<'b>(&mut self, bytes: &'b [u8], left: u64, on: fn(u64) -> Place, behind: Place) -> &'b [u8] {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - count as u64;
        self.place = if left == 0 { behind } else { on(left) };
        bytes.get(count..).unwrap_or_default()
    }

    fn size<'b>(&mut self, bytes: &'b [u8], mut value: Option<u64>) -> &'b [u8] {
        for (index, byte) in bytes.iter().enumerate() {
            let Some(digit) = char::from(*byte).to_digit(16) else {
                self.place = value.map_or(Place::Lost, Place::Extension);
                return bytes.get(index..).unwrap_or_default();
            };
            let next = value.unwrap_or(0).checked_mul(16).map(|sum| sum + u64::from(digit));
            if next.is_none() {
                self.place = Place::Lost;
                return &[];
            }
            value = next;
        }
        self.place = Place::Size(value);
        &[]
    }

    fn extension<'b>(&mut self, bytes: &'b [u8], size: u64) -> &'b [u8] {
        let (_, rest) = line(bytes);
        if rest.is_some() {
            self.place = if size == 0 { Place::Trailers } else { Place::Chunk(size.saturating_add(2)) };
        }
        rest.unwrap_or_default()
    }

    fn trailers<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (piece, rest) = line(bytes);
        self.take(piece);
        let Some(rest) = rest else { return &[] };
        if self.length <= 1 {
            self.place = Place::Head;
        }
        (self.length, self.ends_with_return) = (0, false);
        rest
    }

    fn take(&mut self, piece: &[u8]) {
        let Some(last) = piece.last() else { return };
        self.ends_with_return = *last == b'\r';
        if let Some(free) = self.line.get_mut(self.length.min(KEPT)..) {
            for (to, from) in free.iter_mut().zip(piece) {
                *to = from.to_ascii_lowercase();
            }
        }
        self.length = self.length.saturating_add(piece.len());
    }
}

/// The bytes before the end of a line, and those behind it when there is one.
fn line(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    match bytes.iter().position(|byte| *byte == b'\n') {
        None => (bytes, None),
        Some(end) => (bytes.get(..end).unwrap_or_default(), bytes.get(end + 1..)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which head is refused, in one piece and in pieces of every size.
    fn refused_head(heads: &str) -> Option<u32> {
        let whole = Scanner::default().feed(heads.as_bytes());
        for size in 1..heads.len() {
            let mut scanner = Scanner::default();
            let pieces = heads.as_bytes().chunks(size).find_map(|piece| scanner.feed(piece));
            assert_eq!(pieces, whole, "in pieces of {size}: {heads:?}");
        }
        whole
    }

    fn refused(head: &str) -> bool {
        let refused = refused_head(head);
        assert!(refused.is_none_or(|number| number == 1), "{refused:?}: {head:?}");
        refused.is_some()
    }

    /// SMUG-01 and others.
    #[test]
    fn heads_with_two_ends_are_refused() {
        for head in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\nHost: a\r\ncontent-length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
            "\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert!(refused(head), "{head:?}");
        }
    }

    #[test]
    fn ordinary_heads_are_not_and_bodies_are_not_looked_at() {
        for head in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\na\nb\nc",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
            "GET /content-length: HTTP/1.1\r\nX-Content-Length: 5\r\nContent-Lengths: 1\r\nX: content-length:\r\n\r\n",
        ] {
            assert!(!refused(head), "{head:?}");
        }
    }

    /// SMUG-23.
    #[test]
    fn heads_behind_others_are_looked_at() {
        const BAD: &str = "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
        for before in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 5 \r\n\r\na\nb\nc",
            "POST / HTTP/1.1\r\nTransfer-Encoding:Chunked\r\n\r\n5;x=y\r\na\nb\nc\r\nA \r\n0123456789\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n",
        ] {
            assert_eq!(refused_head(&format!("{before}{BAD}")), Some(2), "{before:?}");
            assert_eq!(refused_head(&format!("{before}{before}{BAD}")), Some(3), "{before:?}");
        }
    }
}
