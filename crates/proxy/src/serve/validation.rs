//! Rejects requests whose host or target is ambiguous.

use http::header::{self, HeaderMap, HeaderValue};
use http::uri::{Authority, Scheme};
use http::{Method, Request, Uri, Version};

use crate::outcome::Outcome;

/// Returns the host of a request; `None` when it is empty, as HTTP allows, or absent in HTTP/1.0.
pub(crate) fn host<B>(request: &Request<B>) -> Result<Option<HeaderValue>, Outcome> {
    let mut values = request.headers().get_all(header::HOST).iter();
    let (value, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(Outcome::AmbiguousHost);
    }
    match (request.uri().authority(), value) {
        // Proxy and upstream could trust a different one of the two names.
        (Some(target), Some(value)) if !is_same_host(target, value) => Err(Outcome::AmbiguousHost),
        (None, Some(value)) if value.is_empty() => Ok(None),
        (_, Some(value)) if !is_host(value) => Err(Outcome::AmbiguousHost),
        (_, Some(value)) => Ok(Some(value.clone())),
        (Some(target), None) => {
            HeaderValue::from_str(target.as_str()).map(Some).map_err(|_| Outcome::AmbiguousHost)
        }
        (None, None) if request.version() == Version::HTTP_10 => Ok(None),
        (None, None) => Err(Outcome::AmbiguousHost),
    }
}

fn is_same_host(target: &Authority, value: &HeaderValue) -> bool {
    target.as_str().as_bytes().eq_ignore_ascii_case(value.as_bytes())
}

/// Returns whether the value contains only characters of a host and port.
fn is_host(value: &HeaderValue) -> bool {
    let is_host_char = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+,;=".contains(byte);
    value.as_bytes().iter().all(is_host_char)
}

/// Returns the outcome of a request whose target is not a path. A target with a scheme other than http or
/// https is not for this proxy.
pub(crate) fn non_path_outcome(method: &Method, uri: &Uri) -> Option<Outcome> {
    if uri.scheme().is_some_and(|scheme| ![Scheme::HTTP, Scheme::HTTPS].contains(scheme)) {
        return Some(Outcome::BadTarget);
    }
    match (method, uri.path()) {
        (&Method::CONNECT, _) => Some(Outcome::PathNotAllowed),
        (&Method::OPTIONS, "*") => Some(Outcome::Answered),
        (_, path) if path.starts_with('/') => None,
        _ => Some(Outcome::BadTarget),
    }
}

/// Returns whether the headers announce a body.
pub(crate) fn announces_body(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_of(version: Version, target: &str, hosts: &[&str]) -> Result<Option<String>, Outcome> {
        let mut request = Request::get(target).version(version).body(()).unwrap();
        for value in hosts {
            request.headers_mut().append(header::HOST, value.parse().unwrap());
        }
        host(&request).map(|host| host.map(|host| host.to_str().unwrap().to_owned()))
    }

    #[test]
    fn exactly_one_host_that_matches_the_target() {
        let ambiguous = Err(Outcome::AmbiguousHost);
        assert_eq!(host_of(Version::HTTP_11, "/", &["a:1"]), Ok(Some("a:1".into())));
        assert_eq!(host_of(Version::HTTP_11, "/", &[]), ambiguous);
        assert_eq!(host_of(Version::HTTP_10, "/", &[]), Ok(None));
        assert_eq!(host_of(Version::HTTP_11, "/", &["a", "a"]), ambiguous);
        assert_eq!(host_of(Version::HTTP_11, "http://a/", &["A"]), Ok(Some("A".into())));
        assert_eq!(host_of(Version::HTTP_11, "http://a/", &["b"]), ambiguous);
        assert_eq!(host_of(Version::HTTP_2, "http://a/", &[]), Ok(Some("a".into())));
        assert_eq!(host_of(Version::HTTP_2, "http://a/", &["b"]), ambiguous);
        assert_eq!(host_of(Version::HTTP_11, "/", &[""]), Ok(None));
        assert_eq!(host_of(Version::HTTP_11, "http://a/", &[""]), ambiguous);
        assert_eq!(host_of(Version::HTTP_11, "/", &["a/b"]), ambiguous);
        assert_eq!(host_of(Version::HTTP_11, "/", &["a b"]), ambiguous);
    }

    #[test]
    fn non_path_targets_are_classified() {
        let outcome =
            |method: &str, uri: &str| non_path_outcome(&method.parse().unwrap(), &uri.parse().unwrap());
        assert_eq!(outcome("OPTIONS", "*"), Some(Outcome::Answered));
        assert_eq!(outcome("GET", "*"), Some(Outcome::BadTarget));
        assert_eq!(outcome("CONNECT", "host:80"), Some(Outcome::PathNotAllowed));
        assert_eq!(outcome("GET", "/a"), None);
        assert_eq!(outcome("GET", "https://host/a"), None);
        assert_eq!(outcome("GET", "ftp://host/a"), Some(Outcome::BadTarget));
        assert_eq!(outcome("GET", ".http://host/a"), Some(Outcome::BadTarget));
    }
}
