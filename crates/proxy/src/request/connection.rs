//! Headers that are meant for one connection only, and must not be passed on.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::protected::Protected;

/// A client asks that a protected header be dropped (W3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamesProtected;

/// Always removed, whatever `Connection` says. `Trailer` stays: it is written anew with the body.
fn is_of_connection(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "http2-settings"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Removes them from a request. `TE: trailers` is kept, since it says what the client can read.
pub(crate) fn strip_request(headers: &mut HeaderMap, protected: &Protected) -> Result<(), NamesProtected> {
    let mut names: Vec<HeaderName> = Vec::new();
    for line in headers.get_all(header::CONNECTION) {
        // By far the most frequent, and nothing to do.
        if line == "keep-alive" || line == "close" {
            continue;
        }
        for name in tokens(line) {
            if protected.covers(name) {
                return Err(NamesProtected);
            }
            names.extend(HeaderName::from_bytes(name.as_bytes()));
        }
    }
    let trailers = wants_trailers(headers);
    strip(headers, &names);
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    Ok(())
}

/// Removes them from an answer.
pub(crate) fn strip_response(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(tokens)
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .collect();
    strip(headers, &names);
}

fn strip(headers: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        headers.remove(name);
    }
    // One at a time: there is seldom more than one, and looking costs less than removing what is not there.
    while let Some(name) = headers.keys().find(|name| is_of_connection(name)).cloned() {
        headers.remove(name);
    }
}

fn wants_trailers(headers: &HeaderMap) -> bool {
    headers.get_all(header::TE).iter().flat_map(tokens).any(|token| token.eq_ignore_ascii_case("trailers"))
}

/// The protocol that a client asks to switch to. `Err` when it names several, or none that can be read.
pub(crate) fn wanted_upgrade(headers: &HeaderMap) -> Result<Option<&str>, ()> {
    let asks = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(tokens)
        .any(|token| token.eq_ignore_ascii_case("upgrade"));
    if !asks {
        return Ok(None);
    }
    let mut lines = headers.get_all(header::UPGRADE).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Ok(None),
        (Some(line), None) => line.to_str().map(|text| Some(text.trim())).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// The words of a list that has commas between. A line that is no text has none.
pub(crate) fn tokens(line: &HeaderValue) -> impl Iterator<Item = &str> {
    line.to_str().unwrap_or_default().split(',').map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let line =
            |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        lines.iter().map(line).collect::<Vec<_>>().into_iter().fold(
            HeaderMap::new(),
            |mut all, (name, value)| {
                all.append(name, value);
                all
            },
        )
    }

    fn left(headers: &HeaderMap) -> Vec<&str> {
        headers.keys().map(HeaderName::as_str).collect()
    }

    /// HDR-03, HDR-06.
    #[test]
    fn every_line_of_connection_counts_and_trailers_are_still_wanted() {
        let mut all = headers(&[
            ("connection", ""),
            ("connection", "close, X-One"),
            ("connection", "x-two"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("te", "gzip, Trailers"),
            ("keep-alive", "5"),
            ("proxy-authorization", "secret"),
            ("http2-settings", "AAA"),
            ("upgrade", "h2c"),
        ]);
        strip_request(&mut all, &Protected::new([])).unwrap();
        assert_eq!(left(&all), ["x-three", "te"]);
        assert_eq!(all[header::TE], "trailers");
    }

    /// W3, HDR-02.
    #[test]
    fn a_request_that_asks_to_drop_an_identity_is_refused() {
        for line in ["x-remote-user", "close, X_Remote_Groups", "x-caller"] {
            let mut all = headers(&[("connection", "keep-alive"), ("connection", line)]);
            assert_eq!(strip_request(&mut all, &Protected::new(["x-caller"])), Err(NamesProtected), "{line}");
        }
    }

    #[test]
    fn answers_lose_the_same() {
        let mut all =
            headers(&[("connection", "x-one"), ("x-one", "1"), ("server", "s"), ("upgrade", "h2c")]);
        strip_response(&mut all);
        assert_eq!(left(&all), ["server"]);
    }

    #[test]
    fn only_an_upgrade_that_connection_asks_for_counts() {
        let wants = |lines| wanted_upgrade(&headers(lines)).map(|name| name.map(str::to_owned));
        assert_eq!(wants(&[("upgrade", "websocket")]), Ok(None));
        assert_eq!(
            wants(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]),
            Ok(Some("websocket".into()))
        );
        assert_eq!(wants(&[("connection", "upgrade"), ("upgrade", "a"), ("upgrade", "b")]), Err(()));
    }
}
