//! Hop-by-hop headers, which must not be forwarded.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::protected::ProtectedHeaders;

/// `Connection` names a protected header, which would be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DropsProtectedHeader;

/// Removed even when `Connection` does not name them. `Trailer` stays: it describes the forwarded body.
pub(super) fn is_hop_by_hop(name: &HeaderName) -> bool {
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

/// Removes hop-by-hop headers from a request. `TE: trailers` stays, because it states what the client can
/// read.
pub(crate) fn strip_request(
    headers: &mut HeaderMap,
    protected: &ProtectedHeaders,
) -> Result<(), DropsProtectedHeader> {
    let mut names: Vec<HeaderName> = Vec::new();
    for value in headers.get_all(header::CONNECTION) {
        // Fast path for the most frequent values.
        if value == "keep-alive" || value == "close" {
            continue;
        }
        for name in tokens(value) {
            if protected.covers(name) {
                return Err(DropsProtectedHeader);
            }
            names.extend(HeaderName::from_bytes(name.as_bytes()));
        }
    }
    let keep_te = accepts_trailers(headers);
    strip(headers, &names);
    if keep_te {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    Ok(())
}

/// Removes hop-by-hop headers from a response.
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
    // One at a time: there is rarely more than one, and searching is cheaper than removing absent names.
    while let Some(name) = headers.keys().find(|name| is_hop_by_hop(name)).cloned() {
        headers.remove(name);
    }
}

fn accepts_trailers(headers: &HeaderMap) -> bool {
    headers.get_all(header::TE).iter().flat_map(tokens).any(|token| token.eq_ignore_ascii_case("trailers"))
}

/// Returns the protocol of a requested upgrade; `Err` when there are several, or one that is not text.
pub(crate) fn requested_upgrade(headers: &HeaderMap) -> Result<Option<&str>, ()> {
    let is_requested = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(tokens)
        .any(|token| token.eq_ignore_ascii_case("upgrade"));
    if !is_requested {
        return Ok(None);
    }
    let mut values = headers.get_all(header::UPGRADE).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(|text| Some(text.trim())).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Splits a comma-separated list. A value that is not text yields nothing.
pub(crate) fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[(&str, &str)]) -> HeaderMap {
        let value =
            |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        values.iter().map(value).collect::<Vec<_>>().into_iter().fold(
            HeaderMap::new(),
            |mut all, (name, value)| {
                all.append(name, value);
                all
            },
        )
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        headers.keys().map(HeaderName::as_str).collect()
    }

    #[test]
    fn all_connection_values_count_and_te_trailers_stays() {
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
        strip_request(&mut all, &ProtectedHeaders::new([])).unwrap();
        assert_eq!(names(&all), ["x-three", "te"]);
        assert_eq!(all[header::TE], "trailers");
    }

    #[test]
    fn dropping_an_identity_header_is_rejected() {
        for value in ["x-remote-user", "close, X_Remote_Groups", "x-caller"] {
            let mut all = headers(&[("connection", "keep-alive"), ("connection", value)]);
            assert_eq!(
                strip_request(&mut all, &ProtectedHeaders::new(["x-caller"])),
                Err(DropsProtectedHeader),
                "{value}"
            );
        }
    }

    #[test]
    fn responses_lose_hop_by_hop_headers() {
        let mut all =
            headers(&[("connection", "x-one"), ("x-one", "1"), ("server", "s"), ("upgrade", "h2c")]);
        strip_response(&mut all);
        assert_eq!(names(&all), ["server"]);
    }

    #[test]
    fn upgrade_requires_connection_header() {
        let upgrade = |values| requested_upgrade(&headers(values)).map(|name| name.map(str::to_owned));
        assert_eq!(upgrade(&[("upgrade", "websocket")]), Ok(None));
        assert_eq!(
            upgrade(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]),
            Ok(Some("websocket".into()))
        );
        assert_eq!(upgrade(&[("connection", "upgrade"), ("upgrade", "a"), ("upgrade", "b")]), Err(()));
    }
}
