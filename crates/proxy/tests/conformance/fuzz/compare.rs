//! Ours beside the upstream program: every difference has an explanation, or is a finding.

use percent_encoding::percent_decode_str;
use testbed::fakes::recorder::Seen;

use super::outcome::Outcome;

/// Why the two may differ on an input; the first that fits.
pub fn explanation(input: &[u8], ours: &Outcome, peer: &Outcome) -> Result<&'static str, String> {
    let all = |outcome: &Outcome| outcome.seen.iter().map(shown).collect::<Vec<_>>();
    let (ours_seen, peer_seen) = (all(ours), all(peer));
    if ours.codes == peer.codes && ours_seen == peer_seen {
        return Ok("the same");
    }
    let (own, other) = (final_codes(ours), final_codes(peer));
    // What ours lets through must be what the peer lets through, in its order.
    let is_among =
        |ours_seen: &[String], peer_seen: &[String]| ours_seen.iter().all(|one| peer_seen.contains(one));
    if !is_among(&ours_seen, &peer_seen) {
        let (stayed, broken) = (without_switches(ours, peer), without_broken(ours));
        if is_among(&ours_seen, &stayed) {
            let same = own == other && ours_seen == stayed;
            return if same { Ok("a switch that is not offered") } else { refusal(input, ours, peer) };
        }
        if is_among(&broken, &peer_seen) {
            if own == other {
                return Ok("a body that breaks, of which the beginning was passed on");
            }
            if gives_up(ours, &own, &other) {
                return Ok("a body that breaks, whose end the peer still waits for");
            }
            if has_odd_path(input) && differ_by_refusals(&own, &other) {
                return Ok("a body that breaks, behind a path that can be read in two ways");
            }
            if has_ill_trailer(input) && ours.closed {
                return Ok("a trailer that is none, which the peer drops");
            }
        }
        let found = "ours lets through what the peer does not";
        return lax(input, ours, peer).ok_or_else(|| found.into());
    }
    if own == other && ours_seen == peer_seen {
        return Ok("an interim answer");
    }
    refusal(input, ours, peer)
}

fn final_codes(outcome: &Outcome) -> Vec<u16> {
    outcome.codes.iter().copied().filter(|code| *code != 100).collect()
}

/// Why ours refuses what the peer does not, or otherwise than it.
fn refusal(input: &[u8], ours: &Outcome, peer: &Outcome) -> Result<&'static str, String> {
    let unended = !input.ends_with(b"\r\n\r\n") && !peer.closed;
    if unended && gives_up(ours, &final_codes(ours), &final_codes(peer)) {
        return Ok("a last head that has not ended, of which the beginning is none");
    }
    let goes_on = goes_on(ours, peer).then_some("a connection that goes on behind a refusal");
    let found = || format!("ours answered {:?}, the peer {:?}", ours.codes, peer.codes);
    strict(input).or(goes_on).ok_or_else(found)
}

/// What the peer forwarded, as ours would have done: it asks for another protocol only if the flag names that, by HTTP/1.1 and for
/// somebody who is known (W4).
fn without_switches(ours: &Outcome, peer: &Outcome) -> Vec<String> {
    let offers = |seen: &Seen| !seen.all("upgrade").is_empty();
    if ours.seen.iter().any(offers) {
        return peer.seen.iter().map(shown).collect();
    }
    let stayed = peer.seen.iter().map(|seen| {
        let mut seen = seen.clone();
        seen.headers.retain(|(name, _)| !["connection", "upgrade"].contains(&name.to_lowercase().as_str()));
        shown(&seen)
    });
    stayed.collect()
}

/// What ours forwarded to its end. Bodies are passed on as they come, also those of which the end turns out to be none; whether
/// the peer had begun by then is a matter of chance.
fn without_broken(ours: &Outcome) -> Vec<String> {
    ours.seen.iter().filter(|seen| seen.complete).map(shown).collect()
}

/// Ours tells of what cannot end well any more and closes, where the peer waits for what may come behind it.
fn gives_up(ours: &Outcome, own: &[u16], other: &[u16]) -> bool {
    let further = own.strip_prefix(other).unwrap_or_default();
    ours.closed && further.len() == 1 && further.iter().all(|code| *code >= 400)
}

/// Ours refused some where the peer gave another answer, and all else was answered alike.
fn differ_by_refusals(own: &[u16], other: &[u16]) -> bool {
    own.len() == other.len() && own.iter().zip(other).all(|(own, other)| own == other || *own == 400)
}

/// The targets of an input in lower case.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.split("\r\n").filter(|line| line.contains(" http/"));
    lines.map(|line| line.split(' ').nth(1).unwrap_or_default())
}

/// Whether a path can be read in two ways.
fn has_odd_path(input: &[u8]) -> bool {
    targets(&String::from_utf8_lossy(input).to_lowercase()).any(|target| {
        let path = target.split('?').next().unwrap_or_default();
        ["//", "/.", "%2e", "%2f", "%5c", "%00", "\\"].iter().any(|part| path.contains(part))
            || target.contains('#')
            || !path.starts_with('/')
    })
}

/// Whether behind a last chunk there is a line that is no field.
fn has_ill_trailer(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_field = |line: &str| {
        line.split_once(':').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(is_token))
    };
    let trailers = text.split("\r\n0\r\n").skip(1).filter_map(|rest| rest.split("\r\n\r\n").next());
    trailers.flat_map(|all| all.split("\r\n")).any(|line| !line.is_empty() && !is_field(line))
}

/// The peer closes connections behind requests that it cannot read; ours only where their end is in doubt.
fn goes_on(ours: &Outcome, peer: &Outcome) -> bool {
    peer.closed && peer.codes.last() == Some(&400) && ours.codes.len() > peer.codes.len()
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
        .map(|(name, value)| {
            // Each has an upstream of its own, whose name stands for one that is missing.
            let upstreams = name == "host" && value.starts_with("127.0.0.1:");
            if upstreams { format!("{name}: the upstream's") } else { format!("{name}: {value}") }
        })
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
    let asked_behind = text.matches("\r\nconnection:").count() > 1 && text.contains("keep-alive");
    if text.contains(" http/1.0\r\n") && asked_behind && is_cut_short(ours, peer) {
        return Some("a connection of HTTP/1.0 that is kept, which only the second of two lines asks for");
    }
    goes_on(ours, peer).then_some("a connection that goes on behind a refusal")
}

/// The peer closed a connection behind answers that ours gave too.
fn is_cut_short(ours: &Outcome, peer: &Outcome) -> bool {
    peer.closed && ours.codes.len() > peer.codes.len() && ours.codes.starts_with(&peer.codes)
}

/// What in an input makes ours refuse, or end the connection, where the peer does not.
fn strict(input: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(input).to_lowercase();
    let bare = text.replace("\r\n", "");
    let lines = || text.split("\r\n");
    let count = |name: &str| {
        lines().filter(|line| line.split(':').next().is_some_and(|key| key.trim() == name)).count()
    };
    let no_text = |target: &str| percent_decode_str(target).decode_utf8().is_err();
    // What RFC 3986 wants to be escaped.
    let raw = |target: &str| target.contains(['<', '>', '"', '^', '`', '{', '|', '}']);
    let versions = || lines().filter_map(|line| line.split_once(" http/")).map(|(_, version)| version);
    let table: [(&'static str, bool); 19] = [
        ("a line that ends otherwise", bare.contains(['\n', '\r'])),
        ("a head that has not ended", !text.contains("\r\n\r\n")),
        // RFC 9112 wants them to be passed over.
        ("empty lines behind a request", text.contains("\r\n\r\n\r\n")),
        ("a folded line", text.contains("\r\n ") || text.contains("\r\n\t")),
        (
            "a version that is none",
            versions().any(|version| version != "1.0" && version != "1.1") || text.contains(" http/1.1 "),
        ),
        ("CONNECT", text.contains("connect ")),
        ("a path that can be read in two ways", has_odd_path(input)),
        ("a path that is no text", targets(&text).any(no_text)),
        ("a target with what must be escaped", targets(&text).any(raw)),
        ("two framings", count("content-length") + count("transfer-encoding") > 1),
        ("an encoding that is not chunked alone", text.contains("transfer-encoding")),
        ("a length that is no number", text.contains("content-length")),
        ("two tokens", count("authorization") > 1),
        ("two names of the host", count("host") != 1 || targets(&text).any(|target| target.contains("://"))),
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
