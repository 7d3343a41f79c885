//! Comparison with the peer: a difference without an explanation is a finding.

use percent_encoding::percent_decode_str;
use testbed::fakes::recorder::RecordedRequest;

use super::outcome::Outcome;

/// Returns why the implementations may differ on an input, or the unexplained difference.
pub fn explain(input: &[u8], ours: &Outcome, peer: &Outcome) -> Result<&'static str, String> {
    let normalized = |outcome: &Outcome| outcome.forwarded.iter().map(normalize).collect::<Vec<_>>();
    let (ours_forwarded, peer_forwarded) = (normalized(ours), normalized(peer));
    if ours.codes == peer.codes && ours_forwarded == peer_forwarded {
        return Ok("no difference");
    }
    let (own, other) = (final_codes(ours), final_codes(peer));
    // Ours must forward only requests that the peer forwards, too.
    let is_among = |ours_forwarded: &[String], peer_forwarded: &[String]| {
        ours_forwarded.iter().all(|request| peer_forwarded.contains(request))
    };
    if !is_among(&ours_forwarded, &peer_forwarded) {
        let (without_upgrades, complete) = (without_upgrades(ours, peer), complete_requests(ours));
        if is_among(&ours_forwarded, &without_upgrades) {
            let is_same = own == other && ours_forwarded == without_upgrades;
            return if is_same {
                Ok("an upgrade that ours does not forward")
            } else {
                explain_rejection(input, ours, peer)
            };
        }
        if is_among(&complete, &peer_forwarded) {
            if own == other {
                return Ok("a malformed body whose start was forwarded");
            }
            if rejects_early(ours, &own, &other) {
                return Ok("a malformed body whose end the peer still waits for");
            }
            if has_ambiguous_path(input) && differ_by_rejections(&own, &other) {
                return Ok("a malformed body after an ambiguous path");
            }
            if has_malformed_trailer(input) && ours.closed {
                return Ok("a malformed trailer, which the peer drops");
            }
        }
        let finding = "ours forwards a request that the peer does not";
        return explain_lenience(input, ours, peer).ok_or_else(|| finding.into());
    }
    if own == other && ours_forwarded == peer_forwarded {
        return Ok("an interim response");
    }
    explain_rejection(input, ours, peer)
}

fn final_codes(outcome: &Outcome) -> Vec<u16> {
    outcome.codes.iter().copied().filter(|code| *code != 100).collect()
}

/// Returns why ours rejects an input that the peer accepts, or rejects it in another way.
fn explain_rejection(input: &[u8], ours: &Outcome, peer: &Outcome) -> Result<&'static str, String> {
    let is_incomplete = !input.ends_with(b"\r\n\r\n") && !peer.closed;
    if is_incomplete && rejects_early(ours, &final_codes(ours), &final_codes(peer)) {
        return Ok("an incomplete last head whose start is malformed");
    }
    let keeps_connection =
        keeps_connection(ours, peer).then_some("a connection that stays open after a rejection");
    let finding = || format!("ours returned {:?}, the peer {:?}", ours.codes, peer.codes);
    explain_strictness(input).or(keeps_connection).ok_or_else(finding)
}

/// Returns the requests that the peer forwarded, without upgrade headers if ours forwarded none: ours forwards an upgrade only
/// over HTTP/1.1 and for an authorized user.
fn without_upgrades(ours: &Outcome, peer: &Outcome) -> Vec<String> {
    let has_upgrade = |request: &RecordedRequest| !request.header_values("upgrade").is_empty();
    if ours.forwarded.iter().any(has_upgrade) {
        return peer.forwarded.iter().map(normalize).collect();
    }
    let stripped = peer.forwarded.iter().map(|request| {
        let mut request = request.clone();
        request
            .headers
            .retain(|(name, _)| !["connection", "upgrade"].contains(&name.to_lowercase().as_str()));
        normalize(&request)
    });
    stripped.collect()
}

/// Returns the requests that ours forwarded completely. Bodies are streamed, including those whose end turns out to be malformed;
/// whether the peer has started by then depends on timing.
fn complete_requests(ours: &Outcome) -> Vec<String> {
    ours.forwarded.iter().filter(|request| request.complete).map(normalize).collect()
}

/// Whether ours rejects a malformed input and closes the connection where the peer waits for more bytes.
fn rejects_early(ours: &Outcome, own: &[u16], other: &[u16]) -> bool {
    let additional = own.strip_prefix(other).unwrap_or_default();
    ours.closed && additional.len() == 1 && additional.iter().all(|code| *code >= 400)
}

/// Whether the statuses are equal except for requests that ours rejected.
fn differ_by_rejections(own: &[u16], other: &[u16]) -> bool {
    own.len() == other.len() && own.iter().zip(other).all(|(own, other)| own == other || *own == 400)
}

/// Returns the request targets of an input in lower case.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.split("\r\n").filter(|line| line.contains(" http/"));
    lines.map(|line| line.split(' ').nth(1).unwrap_or_default())
}

/// Whether an input contains an ambiguous path.
fn has_ambiguous_path(input: &[u8]) -> bool {
    targets(&String::from_utf8_lossy(input).to_lowercase()).any(|target| {
        let path = target.split('?').next().unwrap_or_default();
        ["//", "/.", "%2e", "%2f", "%5c", "%00", "\\"].iter().any(|part| path.contains(part))
            || target.contains('#')
            || !path.starts_with('/')
    })
}

/// Whether a line after the last chunk is not a valid field.
fn has_malformed_trailer(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_field = |line: &str| {
        line.split_once(':').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(is_token))
    };
    let trailers = text.split("\r\n0\r\n").skip(1).filter_map(|rest| rest.split("\r\n\r\n").next());
    trailers.flat_map(|fields| fields.split("\r\n")).any(|line| !line.is_empty() && !is_field(line))
}

/// Whether only the peer closed the connection after a malformed request. Ours closes it only if the framing is ambiguous.
fn keeps_connection(ours: &Outcome, peer: &Outcome) -> bool {
    peer.closed && peer.codes.last() == Some(&400) && ours.codes.len() > peer.codes.len()
}

/// Formats a forwarded request for the comparison, without headers that legitimately differ: framing, the encoding that the peer
/// requests, and identity headers on ignored paths, where the peer forwards those of the client.
fn normalize(request: &RecordedRequest) -> String {
    const IGNORED: [&str; 7] = [
        "accept-encoding",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "x-forwarded-for",
        "http2-settings",
    ];
    let is_open = request.header_values("x-remote-user").is_empty() || request.target.starts_with("/open");
    let is_compared = |name: &str| !is_open && (name == "x-remote-user" || name == "x-remote-groups");
    let is_identity = |name: &str| name == "authorization" || name.replace('_', "-").starts_with("x-remote-");
    let headers = request.headers.iter().map(|(name, value)| (name.to_lowercase(), value));
    let mut headers: Vec<String> = headers
        .filter(|(name, _)| !IGNORED.contains(&name.as_str()) && (!is_identity(name) || is_compared(name)))
        .map(|(name, value)| {
            // Each implementation has its own upstream, whose address replaces a missing Host.
            let is_upstream = name == "host" && value.starts_with("127.0.0.1:");
            if is_upstream { format!("{name}: (upstream)") } else { format!("{name}: {value}") }
        })
        .collect();
    headers.sort();
    format!(
        "{} {} {headers:?} {:?} {}",
        request.method,
        request.target,
        String::from_utf8_lossy(&request.body),
        request.complete
    )
}

/// Returns why ours serves a request that the peer rejects: HTTP allows both, and each request was authorized separately.
fn explain_lenience(input: &[u8], ours: &Outcome, peer: &Outcome) -> Option<&'static str> {
    let text = String::from_utf8_lossy(input).to_lowercase();
    if text.contains("expect:") {
        return Some("an expectation that ours forwards to the upstream");
    }
    if text.split("\r\n\r\n").any(|head| head.contains(" http/1.") && !head.contains("\r\nhost:")) {
        return Some("a Host that is missing or only in the target");
    }
    let has_second_keep_alive = text.matches("\r\nconnection:").count() > 1 && text.contains("keep-alive");
    if text.contains(" http/1.0\r\n") && has_second_keep_alive && peer_closed_early(ours, peer) {
        return Some("an HTTP/1.0 connection kept alive by the second of two Connection headers");
    }
    keeps_connection(ours, peer).then_some("a connection that stays open after a rejection")
}

/// Whether the peer closed the connection after responses that ours returned, too.
fn peer_closed_early(ours: &Outcome, peer: &Outcome) -> bool {
    peer.closed && ours.codes.len() > peer.codes.len() && ours.codes.starts_with(&peer.codes)
}

/// Returns what makes ours reject an input, or close the connection, where the peer does not.
fn explain_strictness(input: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(input).to_lowercase();
    let bare = text.replace("\r\n", "");
    let lines = || text.split("\r\n");
    let count = |name: &str| {
        lines().filter(|line| line.split(':').next().is_some_and(|key| key.trim() == name)).count()
    };
    let is_not_utf8 = |target: &str| percent_decode_str(target).decode_utf8().is_err();
    // Characters that RFC 3986 requires to be escaped.
    let has_raw = |target: &str| target.contains(['<', '>', '"', '^', '`', '{', '|', '}']);
    let versions = || lines().filter_map(|line| line.split_once(" http/")).map(|(_, version)| version);
    let table: [(&'static str, bool); 19] = [
        ("a line that does not end with CRLF", bare.contains(['\n', '\r'])),
        ("an incomplete head", !text.contains("\r\n\r\n")),
        // RFC 9112 requires servers to ignore them.
        ("empty lines after a request", text.contains("\r\n\r\n\r\n")),
        ("a folded line", text.contains("\r\n ") || text.contains("\r\n\t")),
        (
            "an invalid version",
            versions().any(|version| version != "1.0" && version != "1.1") || text.contains(" http/1.1 "),
        ),
        ("CONNECT", text.contains("connect ")),
        ("an ambiguous path", has_ambiguous_path(input)),
        ("a path that is not UTF-8", targets(&text).any(is_not_utf8)),
        ("a target with unescaped characters", targets(&text).any(has_raw)),
        ("ambiguous framing", count("content-length") + count("transfer-encoding") > 1),
        ("a Transfer-Encoding other than chunked", text.contains("transfer-encoding")),
        ("an invalid Content-Length", text.contains("content-length")),
        ("two Authorization headers", count("authorization") > 1),
        ("two hosts", count("host") != 1 || targets(&text).any(|target| target.contains("://"))),
        ("an identity header named by Connection", text.contains("connection")),
        ("an identity header", text.contains("remote")),
        ("an upgrade", text.contains("upgrade")),
        (
            "a byte that is not printable ASCII",
            input.iter().any(|byte| *byte > 126 || (*byte < 32 && !b"\r\n".contains(byte))),
        ),
        ("an expectation", text.contains("expect")),
    ];
    table.into_iter().find(|(_, applies)| *applies).map(|(explanation, _)| explanation)
}
