//! Looks at the bytes of a head for what our parser forgives and others read differently: a length beside chunks, two lengths, lines
//! that end without a carriage return. Whoever stands before or behind us could find another end of the request.

/// What is longest of the names that matter.
const LONGEST: usize = 18;

/// Walks along a head as it comes in, in whatever pieces.
#[derive(Debug)]
pub(super) struct Scanner {
    /// The beginning of the line so far, in lower case.
    line: [u8; LONGEST],
    length: usize,
    ends_with_return: bool,
    lengths: u8,
    encodings: u8,
    /// A line that is not empty has come: before it, empty ones are allowed.
    begun: bool,
    done: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            line: [0; LONGEST],
            length: 0,
            ends_with_return: false,
            lengths: 0,
            encodings: 0,
            begun: false,
            done: false,
        }
    }
}

impl Scanner {
    /// Takes the next bytes. Says whether the head is one that is refused.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while !self.done {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let piece = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            self.take(piece);
            let Some(end) = end else { return false };
            if !self.ends_with_return {
                return true;
            }
            let is_empty = self.length == 1;
            self.done = is_empty && self.begun;
            self.begun |= !is_empty;
            match self.line.get(..self.length.min(LONGEST)) {
                Some(line) if line.starts_with(b"content-length:") => self.lengths += 1,
                Some(line) if line.starts_with(b"transfer-encoding:") => self.encodings += 1,
                _ => {}
            }
            if self.lengths + self.encodings > 1 {
                return true;
            }
            (self.length, self.ends_with_return) = (0, false);
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        false
    }

    fn take(&mut self, piece: &[u8]) {
        let Some(last) = piece.last() else { return };
        self.ends_with_return = *last == b'\r';
        if let Some(free) = self.line.get_mut(self.length.min(LONGEST)..) {
            for (to, from) in free.iter_mut().zip(piece) {
                *to = from.to_ascii_lowercase();
            }
        }
        self.length = self.length.saturating_add(piece.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a head is refused, in one piece and in pieces of every size.
    fn refused(head: &str) -> bool {
        let whole = Scanner::default().feed(head.as_bytes());
        for size in 1..head.len() {
            let mut scanner = Scanner::default();
            let pieces = head.as_bytes().chunks(size).any(|piece| scanner.feed(piece));
            assert_eq!(pieces, whole, "in pieces of {size}: {head:?}");
        }
        whole
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
}
