//! The token of a browser, which can set no header but the list of subprotocols.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};

use crate::request::connection::{tokens, wanted_upgrade};

const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// A token in the list of subprotocols, and the list without it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) token: String,
    pub(crate) rest: HeaderValue,
}

/// The list holds a token in a way that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The token, if the request is one for a websocket and carries one.
pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Found>, Malformed> {
    let is_websocket =
        wanted_upgrade(headers).ok().flatten().is_some_and(|name| name.eq_ignore_ascii_case("websocket"));
    if !is_websocket {
        return Ok(None);
    }
    let mut encoded = None;
    let mut rest: Vec<&str> = Vec::new();
    for protocol in headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().flat_map(tokens) {
        match protocol.strip_prefix(PREFIX) {
            Some(_) if encoded.is_some() => return Err(Malformed),
            Some(token) => encoded = Some(token),
            None => rest.push(protocol),
        }
    }
    let Some(encoded) = encoded else { return Ok(None) };
    // Without another one the server could choose none, and browsers close the connection then.
    if rest.is_empty() {
        return Err(Malformed);
    }
    let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| Malformed)?;
    let token = String::from_utf8(bytes).map_err(|_| Malformed)?;
    let rest = HeaderValue::from_str(&rest.join(",")).map_err(|_| Malformed)?;
    Ok(Some(Found { token, rest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(protocols: &[&str]) -> Result<Option<Found>, Malformed> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("WebSocket"));
        for line in protocols {
            headers.append(header::SEC_WEBSOCKET_PROTOCOL, line.parse().unwrap());
        }
        of(&headers)
    }

    /// WS-01 to WS-03.
    #[test]
    fn the_token_is_taken_out_of_the_list() {
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode("secret"));
        let good = Some(Found { token: "secret".into(), rest: HeaderValue::from_static("a,b") });
        assert_eq!(found(&[&format!("a, {token}"), "b"]), Ok(good));
        assert_eq!(found(&["a, b"]), Ok(None));
        assert_eq!(found(&[&token]), Err(Malformed), "no other protocol");
        assert_eq!(found(&[&format!("a, {token}, {token}")]), Err(Malformed), "twice");
        assert_eq!(found(&[&format!("a, {PREFIX}!!")]), Err(Malformed), "not base64");
        assert_eq!(found(&[&format!("a, {PREFIX}_w")]), Err(Malformed), "not text");
        assert_eq!(of(&HeaderMap::new()), Ok(None));
    }
}
