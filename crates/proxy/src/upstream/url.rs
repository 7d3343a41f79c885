//! The upstream URL (`--upstream`), parsed once.

use std::path::PathBuf;

use http::uri::{Authority, PathAndQuery, Uri};

/// Longest path of a Unix socket that the kernel accepts.
const MAX_SOCKET_PATH: usize = 107;

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
    pub(crate) address: Address,
    pub(crate) protocol: Protocol,
}

/// Where the upstream listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// TCP. The host has no brackets.
    Tcp { host: String, port: u16 },
    /// A Unix socket.
    Unix(PathBuf),
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
        if let Some((scheme, rest)) = url.split_once(':')
            && scheme.eq_ignore_ascii_case("unix")
        {
            return Self::parse_unix(rest, force_h2c).map_err(|reason| {
                format!("invalid URL {url:?}: {reason} (expected for example unix:///run/upstream.sock)")
            });
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
            endpoint: Some(Endpoint { authority, address: Address::Tcp { host, port }, protocol }),
            prefix: path.trim_end_matches('/').to_owned(),
            query: query.to_owned(),
        })
    }

    /// Parses what follows `unix:`. All of it is the path of the socket, so that there is no prefix for requests.
    fn parse_unix(rest: &str, force_h2c: bool) -> Result<Self, &'static str> {
        let path = rest.strip_prefix("//").filter(|path| path.starts_with('/'));
        let path = path.ok_or("the path of the socket is not absolute")?;
        if path.ends_with('/') {
            return Err("the path of the socket ends with a slash");
        }
        if path.contains(['?', '#', '%', '\0']) {
            return Err("the path of the socket contains ?, #, % or NUL");
        }
        if path.len() > MAX_SOCKET_PATH {
            return Err("the path of the socket is longer than 107 bytes");
        }
        if force_h2c {
            return Err("--upstream-force-h2c is not supported for a Unix socket");
        }
        let endpoint = Endpoint {
            authority: Authority::from_static("localhost"),
            address: Address::Unix(path.into()),
            protocol: Protocol::Http1,
        };
        Ok(Self { endpoint: Some(endpoint), ..Self::default() })
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
            (endpoint.address, endpoint.protocol)
        };
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port };
        assert_eq!(endpoint("http://127.0.0.1:7777/", false), (tcp("127.0.0.1", 7777), Protocol::Http1));
        assert_eq!(endpoint("https://host", false), (tcp("host", 443), Protocol::Tls));
        assert_eq!(endpoint("https://[::1]:8", true), (tcp("::1", 8), Protocol::H2c));
        assert_eq!(endpoint("http://user:secret@host", false), (tcp("host", 80), Protocol::Http1));
        let socket = || Address::Unix("/run/a b.sock".into());
        assert_eq!(endpoint("unix:///run/a b.sock", false), (socket(), Protocol::Http1));
        assert_eq!(endpoint("UNIX:///run/a b.sock", false), (socket(), Protocol::Http1));
    }

    #[test]
    fn unix_socket_adds_nothing_to_paths_and_has_a_default_host() {
        assert_eq!(resolved("unix:///run/api.sock", "/a?b=c"), "/a?b=c");
        let endpoint = UpstreamUrl::parse("unix:///run/api.sock", false).unwrap().endpoint.unwrap();
        assert_eq!(endpoint.authority, "localhost");
    }

    #[test]
    fn unix_url_without_usable_path_is_rejected_in_one_line() {
        let long = format!("unix:///{}", "a".repeat(MAX_SOCKET_PATH));
        for malformed in [
            "unix:",
            "unix:/run/api.sock",
            "unix://",
            "unix://run/api.sock",
            "unix:///",
            "unix:///run/",
            "unix:///run/api.sock?x=1",
            "unix:///run/api.sock#x",
            "unix:///run/%61pi.sock",
            "unix:///run/a\0b",
            &long,
        ] {
            let error = UpstreamUrl::parse(malformed, false).unwrap_err();
            assert!(error.contains("expected for example unix:///run/upstream.sock"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let longest = format!("unix:///{}", "a".repeat(MAX_SOCKET_PATH - 1));
        assert!(UpstreamUrl::parse(&longest, false).is_ok());
        let error = UpstreamUrl::parse("unix:///run/api.sock", true).unwrap_err();
        assert!(error.contains("--upstream-force-h2c"), "{error}");
    }
}
