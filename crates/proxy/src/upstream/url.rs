//! The upstream URL (`--upstream`), parsed once.

use http::uri::{Authority, PathAndQuery, Uri};

/// The upstream URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpstreamUrl {
    /// The endpoint; `None` for a URL without a usable address, which is answered with 502.
    pub(crate) endpoint: Option<Endpoint>,
    /// Prefix of every request path, without a trailing slash.
    prefix: String,
    /// Prefix of every request query.
    query: String,
}

/// Address and protocol of the upstream.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Used as `Host` when the client sends none.
    pub(crate) authority: Authority,
    /// Host without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
}

/// Protocol spoken with the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 in clear text.
    Http1,
    /// HTTP/2 in clear text.
    H2c,
    /// TLS, with the protocol negotiated by ALPN.
    Tls,
}

impl UpstreamUrl {
    /// Parses a URL. A malformed one is an error; one without a usable address is accepted, as
    /// kube-rbac-proxy does.
    pub(crate) fn parse(url: &str, force_h2c: bool) -> Result<Self, String> {
        if url.is_empty() {
            return Ok(Self::default());
        }
        let invalid = |reason: &str| {
            Err(format!("invalid URL {url:?}: {reason} (expected for example http://127.0.0.1:8081/)"))
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            // `localhost:8081` parses as a scheme without a host, and is accepted; `127.0.0.1:8081` is not a
            // URL at all.
            return if url.starts_with(|c: char| c.is_ascii_alphabetic()) || url.starts_with('/') {
                Ok(Self::default())
            } else {
                invalid("missing scheme")
            };
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if !path.is_empty() && path.parse::<PathAndQuery>().is_err() {
            return invalid("invalid characters in path");
        }
        let protocol = match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" if force_h2c => Protocol::H2c,
            "http" => Protocol::Http1,
            "https" => Protocol::Tls,
            _ => return Ok(Self::default()),
        };
        // User info is dropped.
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let authority: Authority = match authority.parse() {
            Ok(authority) => authority,
            Err(_) => return invalid("invalid host"),
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let default = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
        let port = match authority.as_str().get(authority.host().len()..) {
            None | Some("" | ":") => default,
            Some(port) => match port.trim_start_matches(':').parse() {
                Ok(port) => port,
                Err(_) => return invalid("invalid port"),
            },
        };
        Ok(Self {
            endpoint: Some(Endpoint { authority, host, port, protocol }),
            prefix: path.trim_end_matches('/').to_owned(),
            query: query.to_owned(),
        })
    }

    /// Returns the target of a request: prefix and request path joined by one slash, prefix query before
    /// request query. Neither is re-encoded: the upstream sees the escapes that the client sent.
    pub(crate) fn resolve(&self, request: &PathAndQuery) -> Option<PathAndQuery> {
        if self.prefix.is_empty() && self.query.is_empty() {
            return Some(request.clone());
        }
        let query = match (self.query.as_str(), request.query().unwrap_or_default()) {
            ("", "") => String::new(),
            (one, "") | ("", one) => format!("?{one}"),
            (ours, theirs) => format!("?{ours}&{theirs}"),
        };
        format!("{}{}{query}", self.prefix, request.path()).parse().ok()
    }
}

impl Endpoint {
    /// Returns the absolute URI of a request, as HTTP/2 needs it.
    pub(crate) fn uri(&self, authority: Authority, path: PathAndQuery) -> Option<Uri> {
        let scheme = if self.protocol == Protocol::Tls { "https" } else { "http" };
        Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(url: &str, request: &str) -> String {
        UpstreamUrl::parse(url, false).unwrap().resolve(&request.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn resolve_joins_paths_and_queries() {
        for (url, request, target) in [
            ("http://u", "/a?b=c", "/a?b=c"),
            ("http://u/", "/a", "/a"),
            ("http://u/base", "/a", "/base/a"),
            ("http://u/base/", "/a%20b", "/base/a%20b"),
            ("http://u/base?x=1", "/a?y=2;z", "/base/a?x=1&y=2;z"),
            ("http://u?x=1", "/", "/?x=1"),
            ("http://u/base", "/", "/base/"),
        ] {
            assert_eq!(resolved(url, request), target, "{url} {request}");
        }
    }

    #[test]
    fn url_without_address_is_accepted_and_malformed_is_not() {
        for unusable in ["", "localhost:8081", "ftp://host/", "/just/a/path"] {
            assert!(UpstreamUrl::parse(unusable, false).unwrap().endpoint.is_none(), "{unusable}");
        }
        for malformed in ["127.0.0.1:8081", "http://host:port/", "http://a b/"] {
            let error = UpstreamUrl::parse(malformed, false).unwrap_err();
            assert!(error.contains("expected for example http://127.0.0.1:8081/"), "{error}");
        }
    }

    #[test]
    fn scheme_sets_port_and_protocol() {
        let endpoint = |url, h2c| {
            let endpoint = UpstreamUrl::parse(url, h2c).unwrap().endpoint.unwrap();
            (endpoint.host, endpoint.port, endpoint.protocol)
        };
        assert_eq!(endpoint("http://127.0.0.1:7777/", false), ("127.0.0.1".into(), 7777, Protocol::Http1));
        assert_eq!(endpoint("https://host", false), ("host".into(), 443, Protocol::Tls));
        assert_eq!(endpoint("https://[::1]:8", true), ("::1".into(), 8, Protocol::H2c));
        assert_eq!(endpoint("http://user:secret@host", false), ("host".into(), 80, Protocol::Http1));
    }
}
