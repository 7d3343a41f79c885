//! Ours beside the upstream program: every difference has an explanation, or is a finding.

use testbed::recorder::Seen;

use super::outcome::Outcome;

/// Why the two may differ on an input; the first that fits.
pub fn explanation(input: &[u8], ours: &Outcome, peer: &Outcome) -> Result<&'static str, String> {
    let ours_seen: Vec<String> = ours.seen.iter().map(shown).collect();
    let peer_seen: Vec<String> = peer.seen.iter().map(shown).collect();
    if ours.codes == peer.codes && ours_seen == peer_seen {
        return Ok("the same");
    }
    let final_codes =
        |outcome: &Outcome| outcome.codes.iter().copied().filter(|code| *code != 100).collect::<Vec<_>>();
    let (own, other) = (final_codes(ours), final_codes(peer));
    // What ours lets through must be what the peer lets through, in its order.
    if !ours_seen.iter().all(|one| peer_seen.contains(one)) {
        let found = "ours lets through what the peer does not";
        return lax(input, ours, peer).ok_or_else(|| found.into());
    }
    if own == other && ours_seen == peer_seen {
        return Ok("an interim answer");
    }
    strict(input).ok_or_else(|| format!("ours answered {own:?}, the peer {other:?}"))
}

/// A request as both should forward it. What framed its body is each one's own, and so is the encoding that the peer asks for.
/// On open paths the peer forwards what nobody has looked at.
fn shown(seen: &Seen) -> String {
    const OWN: [&str; 7] = [
        "accept-encoding",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "x-forwarded-for",
        "http2-settings",
    ];
    let open = seen.all("x-remote-user").is_empty() || seen.target.starts_with("/open");
    let told = |name: &str| !open && (name == "x-remote-user" || name == "x-remote-groups");
    let identity = |name: &str| name == "authorization" || name.replace('_', "-").starts_with("x-remote-");
    let headers = seen.headers.iter().map(|(name, value)| (name.to_lowercase(), value));
    let mut headers: Vec<String> = headers
        .filter(|(name, _)| !OWN.contains(&name.as_str()) && (!identity(name) || told(name)))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    headers.sort();
    format!(
        "{} {} {headers:?} {:?} {}",
        seen.method,
        seen.target,
        String::from_utf8_lossy(&seen.body),
        seen.complete
    )
}

/// Why ours serves what the peer does not: HTTP leaves it open, and each request was looked at by itself.
fn lax(input: &[u8], ours: &Outcome, peer: &Outcome) -> Option<&'static str> {
    let text = String::from_utf8_lossy(input).to_lowercase();
    if text.contains("expect:") {
        return Some("an expectation that is the upstream's to meet");
    }
    if text.split("\r\n\r\n").any(|head| head.contains(" http/1.") && !head.contains("\r\nhost:")) {
        return Some("a host that only the target names, or nobody");
    }
    let goes_on = peer.closed && peer.codes.last() == Some(&400) && ours.codes.len() > peer.codes.len();
    goes_on.then_some("a connection that goes on behind a refusal")
}

/// What in an input makes ours refuse, or end the connection, where the peer does not.
fn strict(input: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(input).to_lowercase();
    let bare = text.replace("\r\n", "");
    let lines = || text.split("\r\n");
    let count = |name: &str| {
        lines().filter(|line| line.split(':').next().is_some_and(|key| key.trim() == name)).count()
    };
    let targets = || {
        lines().filter(|line| line.contains(" http/")).map(|line| line.split(' ').nth(1).unwrap_or_default())
    };
    let odd_path = |target: &str| {
        let path = target.split('?').next().unwrap_or_default();
        ["//", "/.", "%2e", "%2f", "%5c", "%00", "\\"].iter().any(|part| path.contains(part))
            || target.contains('#')
            || !path.starts_with('/')
    };
    let versions = || lines().filter_map(|line| line.split_once(" http/")).map(|(_, version)| version);
    let table: [(&'static str, bool); 15] = [
        ("a line that ends otherwise", bare.contains(['\n', '\r'])),
        ("a folded line", text.contains("\r\n ") || text.contains("\r\n\t")),
        (
            "a version that is none",
            versions().any(|version| version != "1.0" && version != "1.1") || text.contains(" http/1.1 "),
        ),
        ("CONNECT", text.contains("connect ")),
        ("a path that can be read in two ways", targets().any(odd_path)),
        ("two framings", count("content-length") + count("transfer-encoding") > 1),
        ("an encoding that is not chunked alone", text.contains("transfer-encoding")),
        ("a length that is no number", text.contains("content-length")),
        ("two tokens", count("authorization") > 1),
        ("two names of the host", count("host") != 1 || targets().any(|target| target.contains("://"))),
        ("a protected header that Connection names", text.contains("connection")),
        ("a protected header", text.contains("remote")),
        ("a switch of protocols", text.contains("upgrade")),
        (
            "a byte that is none of text",
            input.iter().any(|byte| *byte > 126 || (*byte < 32 && !b"\r\n".contains(byte))),
        ),
        ("an expectation", text.contains("expect")),
    ];
    table.into_iter().find(|(_, fits)| *fits).map(|(why, _)| why)
}
