//! Whether a request has a shape that can be read in one way only.

use http::header::{self, HeaderMap, HeaderValue};
use http::uri::{Authority, Scheme};
use http::{Method, Request, Uri, Version};

use crate::outcome::Outcome;

/// The host of a request; none when it is empty, as HTTP allows, or when a client of HTTP/1.0 has sent none.
pub(crate) fn host<B>(request: &Request<B>) -> Result<Option<HeaderValue>, Outcome> {
    let mut lines = request.headers().get_all(header::HOST).iter();
    let (line, more) = (lines.next(), lines.next());
    if more.is_some() {
        return Err(Outcome::AmbiguousHost);
    }
    match (request.uri().authority(), line) {
        // Two names that differ: the proxy and the upstream could believe one each.
        (Some(target), Some(line)) if !same(target, line) => Err(Outcome::AmbiguousHost),
        (None, Some(line)) if line.is_empty() => Ok(None),
        (_, Some(line)) if !is_host(line) => Err(Outcome::AmbiguousHost),
        (_, Some(line)) => Ok(Some(line.clone())),
        (Some(target), None) => {
            HeaderValue::from_str(target.as_str()).map(Some).map_err(|_| Outcome::AmbiguousHost)
        }
        (None, None) if request.version() == Version::HTTP_10 => Ok(None),
        (None, None) => Err(Outcome::AmbiguousHost),
    }
}

fn same(target: &Authority, line: &HeaderValue) -> bool {
    target.as_str().as_bytes().eq_ignore_ascii_case(line.as_bytes())
}

/// Nothing that ends a host or begins another part of a URL.
fn is_host(line: &HeaderValue) -> bool {
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+,;=".contains(byte);
    line.as_bytes().iter().all(letter)
}

/// What a request that has no path wants. A target with another scheme is not for us, and one with a scheme that is none at all
/// can be read in two ways.
pub(crate) fn without_path(method: &Method, uri: &Uri) -> Option<Outcome> {
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

/// Whether a body is announced.
pub(crate) fn announces_body(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: Version, target: &str, hosts: &[&str]) -> Result<Option<String>, Outcome> {
        let mut request = Request::get(target).version(version).body(()).unwrap();
        for line in hosts {
            request.headers_mut().append(header::HOST, line.parse().unwrap());
        }
        host(&request).map(|host| host.map(|host| host.to_str().unwrap().to_owned()))
    }

    /// PATH-09, PATH-10.
    #[test]
    fn there_is_one_host_and_it_is_the_targets() {
        let bad = Err(Outcome::AmbiguousHost);
        assert_eq!(of(Version::HTTP_11, "/", &["a:1"]), Ok(Some("a:1".into())));
        assert_eq!(of(Version::HTTP_11, "/", &[]), bad);
        assert_eq!(of(Version::HTTP_10, "/", &[]), Ok(None));
        assert_eq!(of(Version::HTTP_11, "/", &["a", "a"]), bad);
        assert_eq!(of(Version::HTTP_11, "http://a/", &["A"]), Ok(Some("A".into())));
        assert_eq!(of(Version::HTTP_11, "http://a/", &["b"]), bad);
        assert_eq!(of(Version::HTTP_2, "http://a/", &[]), Ok(Some("a".into())));
        assert_eq!(of(Version::HTTP_2, "http://a/", &["b"]), bad);
        assert_eq!(of(Version::HTTP_11, "/", &[""]), Ok(None));
        assert_eq!(of(Version::HTTP_11, "http://a/", &[""]), bad);
        assert_eq!(of(Version::HTTP_11, "/", &["a/b"]), bad);
        assert_eq!(of(Version::HTTP_11, "/", &["a b"]), bad);
    }

    #[test]
    fn targets_that_are_no_path_are_told_apart() {
        let wants = |method: &str, uri: &str| without_path(&method.parse().unwrap(), &uri.parse().unwrap());
        assert_eq!(wants("OPTIONS", "*"), Some(Outcome::Answered));
        assert_eq!(wants("GET", "*"), Some(Outcome::BadTarget));
        assert_eq!(wants("CONNECT", "host:80"), Some(Outcome::PathNotAllowed));
        assert_eq!(wants("GET", "/a"), None);
        assert_eq!(wants("GET", "https://host/a"), None);
        assert_eq!(wants("GET", "ftp://host/a"), Some(Outcome::BadTarget));
        assert_eq!(wants("GET", ".http://host/a"), Some(Outcome::BadTarget));
    }
}
