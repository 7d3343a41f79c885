//! HTTP/1 requests as bytes, so that tests can send malformed ones.

/// An HTTP/1 request that is sent as it is.
#[derive(Clone, Debug)]
pub struct RawRequest {
    pub method: String,
    pub target: String,
    pub version: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl RawRequest {
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.into(),
            target: target.into(),
            version: "HTTP/1.1".into(),
            headers: vec![("Host".into(), "proxy.test".into())],
            body: Vec::new(),
        }
    }

    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Builds a POST with a body and its Content-Length.
    pub fn post(target: &str, body: &[u8]) -> Self {
        let mut request = Self::new("POST", target).header("Content-Length", &body.len().to_string());
        request.body = body.to_vec();
        request
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a bearer token.
    pub fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// Encodes the request.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} {}\r\n", self.method, self.target, self.version);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend(&self.body);
        bytes
    }
}
