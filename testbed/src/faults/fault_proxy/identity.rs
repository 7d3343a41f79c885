//! Client identity, and how it is passed to the API server. The proxy authenticates only users of verified
//! certificates; tokens are passed through for the API server to check.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, HOST, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::{Error, Result};

/// Headers with which a front proxy names the user; from a client they are forged and dropped.
const REMOTE_USER: HeaderName = HeaderName::from_static("x-remote-user");
const REMOTE_GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const REMOTE: &str = "x-remote-";

/// Hop-by-hop headers.
const HOP_BY_HOP: [HeaderName; 6] =
    [CONNECTION, HeaderName::from_static("keep-alive"), TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// User name and user agent of the proxy's own requests.
const PROXY_NAME: &str = "outrigger-testbed-fault-proxy";

/// The user of a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientIdentity {
    name: String,
    groups: Vec<String>,
}

impl ClientIdentity {
    /// Identity of the proxy itself, with full access.
    pub(super) fn proxy() -> Self {
        Self { name: PROXY_NAME.into(), groups: vec!["system:masters".into()] }
    }

    /// Parses the subject of a verified certificate like the API server: common name is the user, organizations are
    /// the groups.
    pub(super) fn from_certificate(certificate: &CertificateDer<'_>) -> Result<Self> {
        let invalid =
            |why: &dyn std::fmt::Display| Error::Other(format!("invalid client certificate: {why}"));
        let (_, read) = X509Certificate::from_der(certificate).map_err(|error| invalid(&error))?;
        let subject = read.subject();
        let name = subject.iter_common_name().next().ok_or_else(|| invalid(&"no common name"))?;
        let groups: std::result::Result<Vec<String>, _> =
            subject.iter_organization().map(|group| group.as_str().map(String::from)).collect();
        Ok(Self {
            name: name.as_str().map_err(|error| invalid(&error))?.into(),
            groups: groups.map_err(|error| invalid(&error))?,
        })
    }
}

/// Returns the user name for matching and the journal. The claim of a token is not verified here and grants
/// nothing.
pub(super) fn user(identity: Option<&ClientIdentity>, headers: &HeaderMap) -> String {
    match identity {
        Some(identity) => identity.name.clone(),
        None => claimed_user(headers).unwrap_or_default(),
    }
}

fn claimed_user(headers: &HeaderMap) -> Option<String> {
    #[derive(Deserialize)]
    struct Claims {
        sub: String,
    }
    let token = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    let payload = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice::<Claims>(&payload).ok().map(|claims| claims.sub)
}

/// Returns the request headers for the API server.
pub(super) fn outgoing(
    incoming: &HeaderMap,
    identity: Option<&ClientIdentity>,
    host: &str,
) -> Result<HeaderMap> {
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|_| Error::Other(format!("{text:?} is not a valid header value")))
    };
    let mut headers: HeaderMap = incoming
        .iter()
        .filter(|(name, _)| !HOP_BY_HOP.contains(name) && !name.as_str().starts_with(REMOTE))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    headers.insert(HOST, value(host)?);
    headers.insert(ACCEPT, accepted(incoming));
    // Compressed responses could not be parsed.
    headers.remove(ACCEPT_ENCODING);
    if let Some(identity) = identity {
        headers.remove(AUTHORIZATION);
        headers.insert(REMOTE_USER, value(&identity.name)?);
        for group in &identity.groups {
            headers.append(REMOTE_GROUP, value(group)?);
        }
    }
    Ok(headers)
}

/// Returns the headers of a request of the proxy itself.
pub(super) fn own_headers(accept: HeaderValue) -> HeaderMap {
    HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static(PROXY_NAME)), (ACCEPT, accept)])
}

/// Removes hop-by-hop headers from a response.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Returns the Accept header without types the proxy cannot parse: protobuf and CBOR hide events, tables hide
/// objects.
pub(super) fn accepted(incoming: &HeaderMap) -> HeaderValue {
    let readable = |wanted: &&str| {
        let mut parts = wanted.split(';').map(str::trim);
        parts.next() == Some("application/json") && !parts.any(|part| part == "as=Table")
    };
    let kept: Vec<&str> = incoming
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(readable)
        .collect();
    HeaderValue::from_str(&kept.join(","))
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or(HeaderValue::from_static("application/json"))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::cluster::pki::CertificateAuthority;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn subject_names_user_and_groups() {
        let identity =
            CertificateAuthority::new("test").unwrap().issue_client("jane", Some("staff")).unwrap();
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        let identity = ClientIdentity::from_certificate(&certificate).unwrap();
        assert_eq!(identity, ClientIdentity { name: "jane".into(), groups: vec!["staff".into()] });
    }

    #[test]
    fn forged_identity_headers_are_dropped() {
        let forged = headers(&[
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-uid", "1"),
            ("x-remote-extra-scopes", "all"),
            ("authorization", "Bearer abc"),
            ("connection", "keep-alive"),
        ]);
        let anonymous = outgoing(&forged, None, "api:6443").unwrap();
        assert!(anonymous.keys().all(|name| !name.as_str().starts_with(REMOTE)), "{anonymous:?}");
        assert_eq!(anonymous[AUTHORIZATION], "Bearer abc");
        assert!(anonymous.get(CONNECTION).is_none());

        let jane = ClientIdentity { name: "jane".into(), groups: vec!["a".into(), "b".into()] };
        let sent = outgoing(&forged, Some(&jane), "api:6443").unwrap();
        assert_eq!(sent.get_all(REMOTE_USER).iter().collect::<Vec<_>>(), ["jane"]);
        assert_eq!(sent.get_all(REMOTE_GROUP).iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(sent.get(AUTHORIZATION).is_none(), "a certificate takes precedence over a token");
        assert_eq!(sent[HOST], "api:6443");
    }

    #[test]
    fn only_json_is_accepted() {
        let table = [
            ("application/vnd.kubernetes.protobuf", "application/json"),
            ("*/*", "application/json"),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                "application/json",
            ),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            ),
        ];
        for (info, given) in table {
            let received = headers(&[("accept", info), ("accept-encoding", "gzip")]);
            let sent = outgoing(&received, None, "api").unwrap();
            assert_eq!(sent[ACCEPT], given);
            assert!(sent.get(ACCEPT_ENCODING).is_none());
        }
        assert_eq!(outgoing(&HeaderMap::new(), None, "api").unwrap()[ACCEPT], "application/json");
    }

    #[test]
    fn token_subject_is_the_claimed_user() {
        let payload = BASE64_URL_SAFE_NO_PAD.encode(r#"{"sub":"system:serviceaccount:a:b"}"#);
        let sent = headers(&[("authorization", &format!("Bearer x.{payload}.y"))]);
        assert_eq!(user(None, &sent), "system:serviceaccount:a:b");
        for other in ["Bearer opaque", "Basic eDp5", "Bearer a.!.c"] {
            assert_eq!(user(None, &headers(&[("authorization", other)])), "");
        }
    }
}
