//! Hostile requests: assembled from parts that have broken HTTP implementations, and then mutated. The same number always
//! generates the same input.

use fastrand::Rng;

/// The placeholder for the caller's token, which differs in each run.
pub const TOKEN: &str = "{TOKEN}";

const METHODS: [&str; 14] = [
    "GET", "GET", "GET", "POST", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "get", "X-Y",
    "CONNECT",
];

const PREFIXES: [&str; 14] = [
    "/ok",
    "/ok",
    "/ok",
    "/ok/x",
    "/open",
    "/open/x",
    "/none",
    "/",
    "//ok",
    "/ok/",
    "*",
    "ok",
    "http://proxy.test/ok",
    "http://other.test/open",
];

const SEGMENTS: [&str; 24] = [
    "/a",
    "/",
    "/.",
    "/..",
    "/%2e",
    "/%2e%2e",
    "/..%2f",
    "%2f",
    "%5c",
    "\\",
    "/%00",
    ";v=1",
    "/%zz",
    "/%",
    "?q=1",
    "?",
    "&a=%2e%2e",
    "#f",
    "/é",
    "/ok",
    "/../open",
    "/%2E%2E/open/x",
    "/%252e%252e",
    "/\u{7f}",
];

const VERSIONS: [&str; 9] = [
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.2",
    "HTTP/2.0",
    "http/1.1",
    "HTTP/1.1 ",
];

const HEADERS: [&str; 44] = [
    "X-Remote-User: mallory",
    "x_remote_user: mallory",
    "X-Remote-Groups: mallory",
    "X-Remote-Group: mallory",
    "X-Remote-Extra-A: mallory",
    "X-Remote-User : mallory",
    " X-Remote-User: mallory",
    "X-Remote-User\t: mallory",
    "Connection: close",
    "Connection: keep-alive",
    "Connection: x-remote-user",
    "Connection: X-Remote-Groups, close",
    "Connection: authorization",
    "Connection: x-a",
    "Connection: upgrade",
    "Upgrade: websocket",
    "Upgrade: h2c",
    "HTTP2-Settings: AAMAAABkAAQAAP__",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
    "X-A: 1",
    "X-A: a\0b",
    "X-A: a\u{1}b",
    "X-A:",
    "X-A",
    ": 1",
    "X A: 1",
    "X-\u{e9}: 1",
    "X-A: 1\r\n folded: 2",
    "Expect: 100-continue",
    "Expect: something",
    "TE: trailers",
    "TE: gzip",
    "Trailer: X-Remote-User",
    "Cookie: a=b",
    "X-Forwarded-For: 203.0.113.7",
    "Host: proxy.test",
    "Host: other.test",
    "Host: a b",
    "Authorization: Basic eDp5",
    "Accept-Encoding: br",
    "Range: bytes=0-1",
    "Content-Type: text/plain",
    "Proxy-Authorization: Basic eDp5",
];

const LENGTHS: [&str; 9] = ["0", "3", "5", "+3", "-1", "3, 3", "3,4", " 3", "99999999999999999999"];

const ENCODINGS: [&str; 10] = [
    "chunked",
    "chunked",
    "Chunked",
    "identity",
    "chunked, identity",
    "gzip, chunked",
    "xchunked",
    "chunked\t",
    "\u{b}chunked",
    "chunked, chunked",
];

const CHUNKS: [&str; 10] = [
    "3\r\nabc\r\n0\r\n\r\n",
    "0\r\n\r\n",
    "3;x=y\r\nabc\r\n0\r\n\r\n",
    "3\nabc\n0\n\n",
    "0x3\r\nabc\r\n0\r\n\r\n",
    "3 \r\nabc\r\n0\r\n\r\n",
    "ffffffffffffffff1\r\na\r\n0\r\n\r\n",
    "3\r\nabcd\r\n0\r\n\r\n",
    "3\r\nabc\r\n0\r\nX-Remote-User: mallory\r\nX-B: 1\r\n\r\n",
    "3\r\nabc\r\n00\r\n\r\n",
];

fn pick<'p>(rng: &mut Rng, choices: &[&'p str]) -> &'p str {
    choices[rng.usize(..choices.len())]
}

/// Generates the input of a number.
pub fn generate(number: u64) -> Vec<u8> {
    let rng = &mut Rng::with_seed(number);
    let mut bytes = Vec::new();
    let count = if rng.u8(..) < 180 { 1 } else { rng.usize(2..4) };
    for _ in 0..count {
        bytes.extend(generate_request(rng));
    }
    if rng.u8(..) < 60 {
        for _ in 0..rng.usize(1..4) {
            mutate(rng, &mut bytes);
        }
    }
    bytes
}

fn generate_request(rng: &mut Rng) -> Vec<u8> {
    let mut target = pick(rng, &PREFIXES).to_owned();
    for _ in 0..[0, 0, 0, 1, 1, 2, 3][rng.usize(..7)] {
        target.push_str(pick(rng, &SEGMENTS));
    }
    let mut lines = vec![format!("{} {target} {}", pick(rng, &METHODS), pick(rng, &VERSIONS))];
    if rng.u8(..) < 245 {
        lines.push("Host: proxy.test".into());
    }
    match rng.u8(..) {
        0..170 => lines.push(format!("Authorization: Bearer {TOKEN}")),
        170..190 => lines.push("Authorization: Bearer garbage".into()),
        190..200 => {
            lines.extend([format!("Authorization: Bearer {TOKEN}"), "Authorization: Bearer x".into()])
        }
        200..206 => lines.push(format!("authorization:bearer {TOKEN} more")),
        _ => {}
    }
    for _ in 0..[0, 0, 1, 1, 2, 3, 5][rng.usize(..7)] {
        lines.push(pick(rng, &HEADERS).into());
    }
    let body = match rng.u8(..) {
        0..110 => "",
        110..150 => {
            lines.push("Content-Length: 3".into());
            "abc"
        }
        150..165 => {
            lines.push(format!("Content-Length: {}", pick(rng, &LENGTHS)));
            "abc"
        }
        165..205 => {
            lines.push("Transfer-Encoding: chunked".into());
            pick(rng, &CHUNKS)
        }
        205..225 => {
            lines.push(format!("Transfer-Encoding: {}", pick(rng, &ENCODINGS)));
            pick(rng, &CHUNKS)
        }
        225..240 => {
            lines.push(format!("Content-Length: {}", pick(rng, &LENGTHS)));
            lines.push(format!("Transfer-Encoding: {}", pick(rng, &ENCODINGS)));
            pick(rng, &CHUNKS)
        }
        _ => {
            lines.push(format!("Content-Length: {}", pick(rng, &LENGTHS)));
            lines.push(format!("Content-Length: {}", pick(rng, &LENGTHS)));
            "abc"
        }
    };
    let end = match rng.u8(..) {
        0..5 => "\n",
        5..8 => "\r",
        _ => "\r\n",
    };
    format!("{}{end}{end}{body}", lines.join(end)).into_bytes()
}

/// Mutates an input at a random position.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.usize(..bytes.len());
    match rng.u8(..6) {
        0 => bytes[at] = rng.u8(..),
        1 => bytes.insert(at, b"\r\n\t :\0/.%"[rng.usize(..9)]),
        2 => drop(bytes.remove(at)),
        3 => bytes.truncate(at),
        4 => {
            let end = (at + rng.usize(1..40)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => {
            let end = (at + rng.usize(1..20)).min(bytes.len());
            drop(bytes.drain(at..end));
        }
    }
}

/// Replaces the placeholder with a token.
pub fn with_token(bytes: &[u8], token: &str) -> Vec<u8> {
    let (placeholder, mut out, mut at) = (TOKEN.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(placeholder) {
            out.extend(token.as_bytes());
            at += placeholder.len();
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

/// Escapes an input as in `seeds.yaml`.
pub fn escape(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
