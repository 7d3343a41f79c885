//! Where requests go, read from `--upstream` once.

use http::uri::{Authority, PathAndQuery, Uri};

/// The upstream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    /// How to get there; none for an address that leads nowhere, which is 502 for every request.
    pub(crate) way: Option<Way>,
    /// Put before the path of every request; without a slash at its end.
    prefix: String,
    /// Put before the query of every request.
    query: String,
}

/// How to get to the upstream.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// What the client's `Host` is replaced by when there is none.
    pub(crate) authority: Authority,
    /// Host, without brackets.
    pub(crate) host: String,
    /// Port.
    pub(crate) port: u16,
    /// What is spoken.
    pub(crate) speech: Speech,
}

/// What is spoken with the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// HTTP/1.1 in clear text.
    Plain,
    /// HTTP/2 in clear text.
    H2c,
    /// TLS, and what was agreed on in it.
    Tls,
}

impl Target {
    /// Reads a URL. One that is no URL is refused; one that leads nowhere is taken, as kube-rbac-proxy does.
    pub(crate) fn parse(url: &str, force_h2c: bool) -> Result<Self, String> {
        if url.is_empty() {
            return Ok(Self::default());
        }
        let refused =
            |why: &str| Err(format!("{url:?} is no URL ({why}): use one like http://127.0.0.1:8081/"));
        let Some((scheme, rest)) = url.split_once("://") else {
            // `localhost:8081` is a scheme without a host, and leads nowhere; `127.0.0.1:8081` is nothing at all.
            return if url.starts_with(|c: char| c.is_ascii_alphabetic()) || url.starts_with('/') {
                Ok(Self::default())
            } else {
                refused("there is no scheme")
            };
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if !path.is_empty() && path.parse::<PathAndQuery>().is_err() {
            return refused("its path has characters that a path cannot have");
        }
        let speech = match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" if force_h2c => Speech::H2c,
            "http" => Speech::Plain,
            "https" => Speech::Tls,
            _ => return Ok(Self::default()),
        };
        // A user in the URL is not sent anywhere.
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let authority: Authority = match authority.parse() {
            Ok(authority) => authority,
            Err(_) => return refused("its host cannot be read"),
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let default = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
        let port = match authority.as_str().get(authority.host().len()..) {
            None | Some("" | ":") => default,
            Some(port) => match port.trim_start_matches(':').parse() {
                Ok(port) => port,
                Err(_) => return refused("its port is no number"),
            },
        };
        Ok(Self {
            way: Some(Way { authority, host, port, speech }),
            prefix: path.trim_end_matches('/').to_owned(),
            query: query.to_owned(),
        })
    }

    /// The target of a request: its own path behind ours with one slash between, its own query behind ours. Neither is written
    /// anew: the upstream sees the escapes that the client sent.
    pub(crate) fn join(&self, own: &PathAndQuery) -> Option<PathAndQuery> {
        if self.prefix.is_empty() && self.query.is_empty() {
            return Some(own.clone());
        }
        let query = match (self.query.as_str(), own.query().unwrap_or_default()) {
            ("", "") => String::new(),
            (one, "") | ("", one) => format!("?{one}"),
            (ours, theirs) => format!("?{ours}&{theirs}"),
        };
        format!("{}{}{query}", self.prefix, own.path()).parse().ok()
    }
}

impl Way {
    /// The whole address of a request, as HTTP/2 wants it.
    pub(crate) fn uri(&self, authority: Authority, path: PathAndQuery) -> Option<Uri> {
        let scheme = if self.speech == Speech::Tls { "https" } else { "http" };
        Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(url: &str, own: &str) -> String {
        Target::parse(url, false).unwrap().join(&own.parse().unwrap()).unwrap().to_string()
    }

    /// FWD-01, FWD-02.
    #[test]
    fn paths_are_joined_by_one_slash_and_queries_by_one_sign() {
        for (url, own, target) in [
            ("http://u", "/a?b=c", "/a?b=c"),
            ("http://u/", "/a", "/a"),
            ("http://u/base", "/a", "/base/a"),
            ("http://u/base/", "/a%20b", "/base/a%20b"),
            ("http://u/base?x=1", "/a?y=2;z", "/base/a?x=1&y=2;z"),
            ("http://u?x=1", "/", "/?x=1"),
            ("http://u/base", "/", "/base/"),
        ] {
            assert_eq!(joined(url, own), target, "{url} {own}");
        }
    }

    #[test]
    fn what_leads_nowhere_is_taken_and_what_is_no_url_is_not() {
        for nowhere in ["", "localhost:8081", "ftp://host/", "/just/a/path"] {
            assert!(Target::parse(nowhere, false).unwrap().way.is_none(), "{nowhere}");
        }
        for bad in ["127.0.0.1:8081", "http://host:port/", "http://a b/"] {
            let why = Target::parse(bad, false).unwrap_err();
            assert!(why.contains("use one like http://127.0.0.1:8081/"), "{why}");
        }
    }

    #[test]
    fn ports_and_speech_follow_from_the_scheme() {
        let way = |url, h2c| {
            let way = Target::parse(url, h2c).unwrap().way.unwrap();
            (way.host, way.port, way.speech)
        };
        assert_eq!(way("http://127.0.0.1:7777/", false), ("127.0.0.1".into(), 7777, Speech::Plain));
        assert_eq!(way("https://host", false), ("host".into(), 443, Speech::Tls));
        assert_eq!(way("https://[::1]:8", true), ("::1".into(), 8, Speech::H2c));
        assert_eq!(way("http://user:secret@host", false), ("host".into(), 80, Speech::Plain));
    }
}
