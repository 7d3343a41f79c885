//! Who asks, and how the API server is told so. The proxy speaks for the user of a verified certificate, and for nobody
//! else: a token is passed on for the API server to judge.

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

/// Names a front proxy tells the API server the user by; what comes with such a name from a client is a forgery.
const REMOTE_USER: HeaderName = HeaderName::from_static("x-remote-user");
const REMOTE_GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const REMOTE: &str = "x-remote-";

/// Headers that belong to one connection and not to the request.
const OF_THE_CONNECTION: [HeaderName; 6] =
    [CONNECTION, HeaderName::from_static("keep-alive"), TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// The proxy's own name, for what it has to ask itself.
const OWN_NAME: &str = "outrigger-testbed-fault-proxy";

/// The user that a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    name: String,
    groups: Vec<String>,
}

impl Holder {
    /// The proxy itself, who may do everything.
    pub(super) fn own() -> Self {
        Self { name: OWN_NAME.into(), groups: vec!["system:masters".into()] }
    }

    /// Reads the subject of a certificate, which TLS has verified, as the API server would: the common name is the
    /// user, organizations are the groups.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<Self> {
        let refused = |why: &dyn std::fmt::Display| Error::Refused(format!("a client's certificate: {why}"));
        let (_, read) = X509Certificate::from_der(certificate).map_err(|error| refused(&error))?;
        let subject = read.subject();
        let name = subject.iter_common_name().next().ok_or_else(|| refused(&"it has no common name"))?;
        let groups: std::result::Result<Vec<String>, _> =
            subject.iter_organization().map(|group| group.as_str().map(String::from)).collect();
        Ok(Self {
            name: name.as_str().map_err(|error| refused(&error))?.into(),
            groups: groups.map_err(|error| refused(&error))?,
        })
    }
}

/// The user's name, for faults and for the journal. A token's claim is not verified here; it opens nothing.
pub(super) fn user(holder: Option<&Holder>, headers: &HeaderMap) -> String {
    match holder {
        Some(holder) => holder.name.clone(),
        None => claimed(headers).unwrap_or_default(),
    }
}

fn claimed(headers: &HeaderMap) -> Option<String> {
    #[derive(Deserialize)]
    struct Claims {
        sub: String,
    }
    let token = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    let payload = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice::<Claims>(&payload).ok().map(|claims| claims.sub)
}

/// The headers of a request as they go to the API server.
pub(super) fn outgoing(incoming: &HeaderMap, holder: Option<&Holder>, host: &str) -> Result<HeaderMap> {
    let value = |text: &str| {
        HeaderValue::from_str(text)
            .map_err(|_| Error::Refused(format!("{text:?} cannot be told to the API server in a header")))
    };
    let mut headers: HeaderMap = incoming
        .iter()
        .filter(|(name, _)| !OF_THE_CONNECTION.contains(name) && !name.as_str().starts_with(REMOTE))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    headers.insert(HOST, value(host)?);
    headers.insert(ACCEPT, accepted(incoming));
    // What is compressed cannot be read on its way.
    headers.remove(ACCEPT_ENCODING);
    if let Some(holder) = holder {
        headers.remove(AUTHORIZATION);
        headers.insert(REMOTE_USER, value(&holder.name)?);
        for group in &holder.groups {
            headers.append(REMOTE_GROUP, value(group)?);
        }
    }
    Ok(headers)
}

/// The headers of a request of the proxy's own.
pub(super) fn own_headers(accept: HeaderValue) -> HeaderMap {
    HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static(OWN_NAME)), (ACCEPT, accept)])
}

/// Takes the headers of one connection out of an answer.
pub(super) fn strip_connection(headers: &mut HeaderMap) {
    for name in OF_THE_CONNECTION {
        headers.remove(name);
    }
}

/// What the client accepts, without everything that the proxy could not read: protobuf and CBOR would hide events from
/// it, and a table for people hides the objects.
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
    use crate::cluster::pki::Authority;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn the_subject_names_user_and_group() {
        let identity = Authority::new("test").unwrap().client("jane", Some("staff")).unwrap();
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        let holder = Holder::of(&certificate).unwrap();
        assert_eq!(holder, Holder { name: "jane".into(), groups: vec!["staff".into()] });
    }

    #[test]
    fn nobody_can_say_who_he_is_but_by_his_certificate() {
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

        let jane = Holder { name: "jane".into(), groups: vec!["a".into(), "b".into()] };
        let told = outgoing(&forged, Some(&jane), "api:6443").unwrap();
        assert_eq!(told.get_all(REMOTE_USER).iter().collect::<Vec<_>>(), ["jane"]);
        assert_eq!(told.get_all(REMOTE_GROUP).iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(told.get(AUTHORIZATION).is_none(), "a token beside a certificate must not decide");
        assert_eq!(told[HOST], "api:6443");
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
        for (asked, given) in table {
            let sent = headers(&[("accept", asked), ("accept-encoding", "gzip")]);
            let told = outgoing(&sent, None, "api").unwrap();
            assert_eq!(told[ACCEPT], given);
            assert!(told.get(ACCEPT_ENCODING).is_none());
        }
        assert_eq!(outgoing(&HeaderMap::new(), None, "api").unwrap()[ACCEPT], "application/json");
    }

    #[test]
    fn a_token_says_whom_it_claims() {
        let payload = BASE64_URL_SAFE_NO_PAD.encode(r#"{"sub":"system:serviceaccount:a:b"}"#);
        let sent = headers(&[("authorization", &format!("Bearer x.{payload}.y"))]);
        assert_eq!(user(None, &sent), "system:serviceaccount:a:b");
        for other in ["Bearer opaque", "Basic eDp5", "Bearer a.!.c"] {
            assert_eq!(user(None, &headers(&[("authorization", other)])), "");
        }
    }
}
