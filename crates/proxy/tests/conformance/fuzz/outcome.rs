//! What became of an input, and what must never become of one.

use testbed::fakes::recorder::Seen;

/// What became of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Codes of answers.
    pub codes: Vec<u16>,
    /// The connection was closed.
    pub closed: bool,
    /// What reached the upstream.
    pub seen: Vec<Seen>,
}

/// The codes that somebody can be answered: of the upstream, of the proxy, and of a parser of HTTP.
const CODES: [u16; 19] =
    [100, 200, 400, 401, 403, 404, 405, 408, 411, 413, 414, 415, 417, 421, 426, 431, 501, 502, 505];

/// Everything about an outcome of ours that must not be.
pub fn broken(outcome: &Outcome, user: &str) -> Vec<String> {
    let mut found = Vec::new();
    for code in outcome.codes.iter().filter(|code| !CODES.contains(code)) {
        found.push(format!("the answer {code}"));
    }
    for seen in &outcome.seen {
        let path = seen.target.split('?').next().unwrap_or_default();
        let open = path == "/open" || path.strip_prefix("/open/").is_some_and(|rest| !rest.contains('/'));
        let told = seen.all("x-remote-user");
        if open && !told.is_empty() {
            found.push(format!("a user on an open path: {told:?}"));
        }
        if !open && told != [user] {
            found.push(format!("{} reached the upstream for {told:?}", seen.target));
        }
        let allowed = path == "/ok" || path.starts_with("/ok/");
        if !open && !allowed {
            found.push(format!("{} reached the upstream, which nobody may", seen.target));
        }
        let lines = || seen.headers.iter().chain(&seen.trailers);
        if lines().any(|(name, value)| is_identity(name) && value.contains("mallory")) {
            found.push("a spoofed header".into());
        }
        if !open && !seen.all("authorization").is_empty() {
            found.push("a token".into());
        }
        found.extend(ambiguous(path));
        found.extend(ill_formed(seen));
    }
    let answered = outcome.codes.iter().filter(|code| **code != 100).count();
    if outcome.seen.iter().filter(|seen| seen.complete).count() > answered + usize::from(outcome.closed) {
        found.push(format!("{} requests for {answered} answers", outcome.seen.len()));
    }
    found
}

/// A name by which upstreams know who asks.
fn is_identity(name: &str) -> bool {
    let name = name.replace('_', "-").to_lowercase();
    ["x-remote-user", "x-remote-group", "x-remote-groups", "x-remote-uid"].contains(&name.as_str())
        || name.starts_with("x-remote-extra-")
}

/// A path that another reader could read differently.
fn ambiguous(path: &str) -> Option<String> {
    let lower = path.to_lowercase();
    let decoded = lower.replace("%2e", ".");
    let dots = decoded.split('/').any(|segment| segment == "." || segment == "..");
    let hidden = ["%2f", "%5c", "%00", "\\", "//"].iter().any(|part| lower.contains(part));
    (dots || hidden || !path.starts_with('/')).then(|| format!("the path {path}"))
}

/// A head that is not of the one form that every reader reads alike.
fn ill_formed(seen: &Seen) -> Option<String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let names = seen.headers.iter().all(|(name, _)| !name.is_empty() && name.bytes().all(token));
    let values = seen
        .headers
        .iter()
        .all(|(_, value)| value.bytes().all(|byte| byte == b'\t' || (byte >= 32 && byte != 127)));
    let (lengths, encodings) = (seen.all("content-length"), seen.all("transfer-encoding"));
    let framing = lengths.len() + encodings.len() <= 1
        && lengths.iter().all(|one| one.bytes().all(|byte| byte.is_ascii_digit()))
        && encodings.iter().all(|one| *one == "chunked");
    let fold = seen.head.contains("\r\n ") || seen.head.contains("\r\n\t");
    let bare = seen.head.replace("\r\n", "").contains(['\r', '\n']);
    let good = names
        && values
        && framing
        && !fold
        && !bare
        && seen.all("host").len() == 1
        && seen.version == "HTTP/1.1";
    (!good).then(|| format!("the head {:?}", seen.head))
}
