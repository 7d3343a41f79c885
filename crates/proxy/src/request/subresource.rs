//! The header that names the subresource of a POST request (`authorization.subresourceFromHeader`).

use http::header::{self, HeaderMap, HeaderName};

use super::hop_by_hop;
use super::protected::is_same_name;

/// Maximum length of a DNS label.
const MAX_LENGTH: usize = 63;

/// The header is not a single DNS label that reaches the upstream as it was authorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadHeader;

/// Returns whether a header has a meaning of its own, or is not forwarded unchanged.
pub(crate) fn is_reserved(name: &HeaderName) -> bool {
    const RESERVED: [&str; 6] =
        ["authorization", "content-length", "host", "sec-websocket-protocol", "trailer", "x-forwarded-for"];
    hop_by_hop::is_hop_by_hop(name) || RESERVED.contains(&name.as_str())
}

/// Returns the requested subresource; `None` without the header. The upstream must receive the value that was authorized:
/// a second header, a spelling with underscores, which some servers treat as the same name, and a `Connection` header
/// that would remove it are errors.
pub(crate) fn requested<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, BadHeader> {
    let drops = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(hop_by_hop::tokens)
        .any(|token| is_same_name(token, name.as_str()));
    let has_twin = headers.keys().any(|other| other != name && is_same_name(other.as_str(), name.as_str()));
    if drops || has_twin {
        return Err(BadHeader);
    }
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) if is_dns_label(value.as_bytes()) => {
            value.to_str().map(Some).map_err(|_| BadHeader)
        }
        _ => Err(BadHeader),
    }
}

fn is_dns_label(text: &[u8]) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= MAX_LENGTH
        && text.first().is_some_and(is_alphanumeric)
        && text.last().is_some_and(is_alphanumeric)
        && text.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: HeaderName = HeaderName::from_static("x-kind");

    fn requested_by(values: &[(&'static str, &[u8])]) -> Result<Option<String>, BadHeader> {
        let mut headers = HeaderMap::new();
        for &(name, value) in values {
            headers.append(HeaderName::from_static(name), http::HeaderValue::from_bytes(value).unwrap());
        }
        requested(&headers, &NAME).map(|value| value.map(str::to_owned))
    }

    #[test]
    fn single_dns_label_is_the_subresource() {
        assert_eq!(requested_by(&[("x-other", b"a")]), Ok(None));
        let longest = [b'a'; MAX_LENGTH];
        for value in [&b"a"[..], b"0", b"snapshot-restore", b"a--b", &longest] {
            let expected = String::from_utf8(value.to_vec()).unwrap();
            assert_eq!(requested_by(&[("x-kind", value)]), Ok(Some(expected)));
        }
    }

    #[test]
    fn repeated_or_malformed_header_is_rejected() {
        let long = [b'a'; MAX_LENGTH + 1];
        for value in [
            &b""[..],
            b"-a",
            b"a-",
            b"A",
            b"a.b",
            b"a/b",
            b"a,b",
            b"a b",
            b"a_b",
            b"*",
            b"a%2e",
            "\u{e9}".as_bytes(),
            &long,
        ] {
            assert_eq!(requested_by(&[("x-kind", value)]), Err(BadHeader), "{value:?}");
        }
        assert_eq!(requested_by(&[("x-kind", b"a"), ("x-kind", b"a")]), Err(BadHeader));
        assert_eq!(requested_by(&[("x-kind", b"a"), ("x_kind", b"b")]), Err(BadHeader));
        assert_eq!(requested_by(&[("x_kind", b"a")]), Err(BadHeader));
    }

    #[test]
    fn connection_cannot_remove_the_header() {
        for value in [&b"x-kind"[..], b"close, X-Kind", b"x_kind"] {
            assert_eq!(requested_by(&[("connection", value), ("x-kind", b"a")]), Err(BadHeader), "{value:?}");
            assert_eq!(requested_by(&[("connection", value)]), Err(BadHeader), "{value:?}");
        }
        assert!(requested_by(&[("connection", b"close, x-other"), ("x-kind", b"a")]).is_ok());
    }
}
