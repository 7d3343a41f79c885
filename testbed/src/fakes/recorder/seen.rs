//! One request as it came.

/// One request as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// On which connection, counted from one.
    pub connection: u64,
    /// The head, byte for byte; empty over HTTP/2.
    pub head: String,
    /// The method.
    pub method: String,
    /// The target as it was written: over HTTP/2, path and query.
    pub target: String,
    /// `HTTP/1.1` and the like.
    pub version: String,
    /// Header lines in their order, names as they were written.
    pub headers: Vec<(String, String)>,
    /// The body's first bytes: enough for what tests send to be compared.
    pub body: Vec<u8>,
    /// How long the body was.
    pub length: u64,
    /// Trailer lines.
    pub trailers: Vec<(String, String)>,
    /// The body came to its end.
    pub complete: bool,
    /// The other side went away before the answer was given.
    pub abandoned: bool,
    /// What came after a switch of protocols.
    pub tunnelled: Vec<u8>,
    /// The client showed a certificate.
    pub certificate: bool,
}

impl Seen {
    /// How much of a body is kept.
    pub(super) const KEPT: usize = 64 * 1024;

    /// All values of a header, whatever the case of its name.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        let same = |line: &&(String, String)| line.0.eq_ignore_ascii_case(name);
        self.headers.iter().filter(same).map(|(_, value)| value.as_str()).collect()
    }

    /// All values of a header in one text, or `-` when it is absent: what an observation shows.
    #[must_use]
    pub fn shown(&self, name: &str) -> String {
        let all = self.all(name);
        if all.is_empty() { "-".into() } else { all.join(" & ") }
    }

    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let room = Self::KEPT.saturating_sub(self.body.len());
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.length += bytes.len() as u64;
    }
}
