//! Recorded requests.

/// A recorded request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Number of the connection, starting at 1.
    pub connection: u64,
    /// Request head, byte for byte; empty for HTTP/2.
    pub head: String,
    /// Method.
    pub method: String,
    /// Request target as sent; for HTTP/2, path and query.
    pub target: String,
    /// HTTP version, such as `HTTP/1.1`.
    pub version: String,
    /// Header fields in order, with names as sent.
    pub headers: Vec<(String, String)>,
    /// The first bytes of the body, enough for comparison.
    pub body: Vec<u8>,
    /// Length of the whole body.
    pub length: u64,
    /// Trailer fields.
    pub trailers: Vec<(String, String)>,
    /// Whether the body was received completely.
    pub complete: bool,
    /// Whether the client disconnected before the response was sent.
    pub abandoned: bool,
    /// Bytes received after a protocol switch.
    pub tunneled: Vec<u8>,
    /// Whether the client presented a certificate.
    pub has_client_certificate: bool,
}

impl RecordedRequest {
    /// Number of body bytes that are kept.
    pub(super) const MAX_KEPT_BODY: usize = 64 * 1024;

    /// Returns all values of a header field, ignoring case.
    #[must_use]
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        let same_name = |field: &&(String, String)| field.0.eq_ignore_ascii_case(name);
        self.headers.iter().filter(same_name).map(|(_, value)| value.as_str()).collect()
    }

    /// Returns all values of a header field joined by ` & `, or `-` if absent.
    #[must_use]
    pub fn joined_header(&self, name: &str) -> String {
        let all = self.header_values(name);
        if all.is_empty() { "-".into() } else { all.join(" & ") }
    }

    pub(super) fn append_body(&mut self, bytes: &[u8]) {
        let room = Self::MAX_KEPT_BODY.saturating_sub(self.body.len());
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.length += bytes.len() as u64;
    }
}
