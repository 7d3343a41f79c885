//! The outcome of an input, and the invariants that every outcome must satisfy.

use testbed::fakes::recorder::RecordedRequest;

/// The outcome of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The status codes of all responses.
    pub codes: Vec<u16>,
    /// Whether the proxy closed the connection.
    pub closed: bool,
    /// The requests that reached the upstream.
    pub forwarded: Vec<RecordedRequest>,
}

/// The status codes that the upstream, the proxy and its HTTP parser may return.
const ALLOWED_CODES: [u16; 19] =
    [100, 200, 400, 401, 403, 404, 405, 408, 411, 413, 414, 415, 417, 421, 426, 431, 501, 502, 505];

/// Returns the violated invariants of an outcome of our proxy.
pub fn violations(outcome: &Outcome, user: &str) -> Vec<String> {
    let mut violations = Vec::new();
    for code in outcome.codes.iter().filter(|code| !ALLOWED_CODES.contains(code)) {
        violations.push(format!("unexpected status {code}"));
    }
    for forwarded in &outcome.forwarded {
        let path = forwarded.target.split('?').next().unwrap_or_default();
        let is_open = path == "/open" || path.strip_prefix("/open/").is_some_and(|rest| !rest.contains('/'));
        let users = forwarded.header_values("x-remote-user");
        if is_open && !users.is_empty() {
            violations.push(format!("identity on an ignored path: {users:?}"));
        }
        if !is_open && users != [user] {
            violations.push(format!("{} was forwarded for {users:?}", forwarded.target));
        }
        let is_allowed = path == "/ok" || path.starts_with("/ok/");
        if !is_open && !is_allowed {
            violations.push(format!("{} was forwarded without permission", forwarded.target));
        }
        let fields = || forwarded.headers.iter().chain(&forwarded.trailers);
        if fields().any(|(name, value)| is_identity(name) && value.contains("mallory")) {
            violations.push("a spoofed identity header was forwarded".into());
        }
        if !is_open && !forwarded.header_values("authorization").is_empty() {
            violations.push("the token was forwarded".into());
        }
        violations.extend(ambiguous_path(path));
        violations.extend(ambiguous_head(forwarded));
    }
    let answered = outcome.codes.iter().filter(|code| **code != 100).count();
    if outcome.forwarded.iter().filter(|forwarded| forwarded.complete).count()
        > answered + usize::from(outcome.closed)
    {
        violations.push(format!("{} requests for {answered} responses", outcome.forwarded.len()));
    }
    violations
}

/// Whether upstreams take the identity from a header.
fn is_identity(name: &str) -> bool {
    let name = name.replace('_', "-").to_lowercase();
    ["x-remote-user", "x-remote-group", "x-remote-groups", "x-remote-uid"].contains(&name.as_str())
        || name.starts_with("x-remote-extra-")
}

/// Reports a path that other parsers could read differently.
fn ambiguous_path(path: &str) -> Option<String> {
    let lower = path.to_lowercase();
    let decoded = lower.replace("%2e", ".");
    let has_dots = decoded.split('/').any(|segment| segment == "." || segment == "..");
    let has_separators = ["%2f", "%5c", "%00", "\\", "//"].iter().any(|part| lower.contains(part));
    (has_dots || has_separators || !path.starts_with('/')).then(|| format!("ambiguous path {path}"))
}

/// Reports a head that is not in the form that all parsers agree on.
fn ambiguous_head(forwarded: &RecordedRequest) -> Option<String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let names_are_valid =
        forwarded.headers.iter().all(|(name, _)| !name.is_empty() && name.bytes().all(is_token));
    let values_are_valid = forwarded
        .headers
        .iter()
        .all(|(_, value)| value.bytes().all(|byte| byte == b'\t' || (byte >= 32 && byte != 127)));
    let (lengths, encodings) =
        (forwarded.header_values("content-length"), forwarded.header_values("transfer-encoding"));
    let framing_is_unique = lengths.len() + encodings.len() <= 1
        && lengths.iter().all(|value| value.bytes().all(|byte| byte.is_ascii_digit()))
        && encodings.iter().all(|value| *value == "chunked");
    let has_fold = forwarded.head.contains("\r\n ") || forwarded.head.contains("\r\n\t");
    let has_bare_line_end = forwarded.head.replace("\r\n", "").contains(['\r', '\n']);
    let is_valid = names_are_valid
        && values_are_valid
        && framing_is_unique
        && !has_fold
        && !has_bare_line_end
        && forwarded.header_values("host").len() == 1
        && forwarded.version == "HTTP/1.1";
    (!is_valid).then(|| format!("ambiguous head {:?}", forwarded.head))
}
