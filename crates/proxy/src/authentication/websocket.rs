//! Tokens in websocket subprotocols: browsers can set no other header of a websocket request.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};

use crate::request::hop_by_hop::{requested_upgrade, tokens};

const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// A token, and the other subprotocols.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SubprotocolToken {
    pub(crate) token: String,
    pub(crate) remaining: HeaderValue,
}

/// The subprotocols contain a token in an invalid form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Returns the token of a websocket request, if it has one.
pub(crate) fn token(headers: &HeaderMap) -> Result<Option<SubprotocolToken>, Malformed> {
    let is_websocket =
        requested_upgrade(headers).ok().flatten().is_some_and(|name| name.eq_ignore_ascii_case("websocket"));
    if !is_websocket {
        return Ok(None);
    }
    let mut encoded = None;
    let mut remaining: Vec<&str> = Vec::new();
    for protocol in headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().flat_map(tokens) {
        match protocol.strip_prefix(PREFIX) {
            Some(_) if encoded.is_some() => return Err(Malformed),
            Some(token) => encoded = Some(token),
            None => remaining.push(protocol),
        }
    }
    let Some(encoded) = encoded else { return Ok(None) };
    // Without another subprotocol the server could select none, and browsers would close the connection.
    if remaining.is_empty() {
        return Err(Malformed);
    }
    let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| Malformed)?;
    let token = String::from_utf8(bytes).map_err(|_| Malformed)?;
    let remaining = HeaderValue::from_str(&remaining.join(",")).map_err(|_| Malformed)?;
    Ok(Some(SubprotocolToken { token, remaining }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(protocols: &[&str]) -> Result<Option<SubprotocolToken>, Malformed> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("WebSocket"));
        for value in protocols {
            headers.append(header::SEC_WEBSOCKET_PROTOCOL, value.parse().unwrap());
        }
        token(&headers)
    }

    #[test]
    fn token_is_removed_from_subprotocols() {
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode("secret"));
        let expected =
            Some(SubprotocolToken { token: "secret".into(), remaining: HeaderValue::from_static("a,b") });
        assert_eq!(found(&[&format!("a, {token}"), "b"]), Ok(expected));
        assert_eq!(found(&["a, b"]), Ok(None));
        assert_eq!(found(&[&token]), Err(Malformed), "no other protocol");
        assert_eq!(found(&[&format!("a, {token}, {token}")]), Err(Malformed), "twice");
        assert_eq!(found(&[&format!("a, {PREFIX}!!")]), Err(Malformed), "not base64");
        assert_eq!(found(&[&format!("a, {PREFIX}_w")]), Err(Malformed), "not text");
        assert_eq!(super::token(&HeaderMap::new()), Ok(None));
    }
}
