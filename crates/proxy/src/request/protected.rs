//! Identity headers. Only the proxy may set them.

use http::header::HeaderMap;

/// Names that upstreams of Kubernetes proxies trust, in addition to the configured ones.
const REMOTE_HEADERS: [&str; 4] = ["x-remote-user", "x-remote-group", "x-remote-groups", "x-remote-uid"];
const REMOTE_EXTRA_PREFIX: &str = "x-remote-extra-";

/// The set of protected header names.
#[derive(Clone, Debug)]
pub(crate) struct ProtectedHeaders {
    configured: Vec<String>,
}

impl ProtectedHeaders {
    /// Protects the `X-Remote-*` headers and the given names.
    pub(crate) fn new<'a>(configured: impl IntoIterator<Item = &'a str>) -> Self {
        let folded = |name: &str| fold(name.as_bytes()).map(char::from).collect::<String>();
        let configured =
            configured.into_iter().map(folded).filter(|name| !REMOTE_HEADERS.contains(&name.as_str()));
        Self { configured: configured.collect() }
    }

    /// Returns whether a name is protected. `_` and `-` count as equal, because many servers do not
    /// distinguish them.
    pub(crate) fn covers(&self, name: &str) -> bool {
        let name = name.as_bytes();
        let equals = |expected: &str| name.len() == expected.len() && fold(name).eq(expected.bytes());
        // Fast path: nearly every header differs in its first letter.
        let is_remote_header = matches!(name.first(), Some(b'x' | b'X'))
            && (REMOTE_HEADERS.iter().any(|expected| equals(expected))
                || name
                    .get(..REMOTE_EXTRA_PREFIX.len())
                    .is_some_and(|prefix| fold(prefix).eq(REMOTE_EXTRA_PREFIX.bytes())));
        is_remote_header || self.configured.iter().any(|expected| equals(expected))
    }

    /// Removes all protected headers. Returns whether there were any.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) -> bool {
        let mut found = false;
        // One at a time: there are almost never any, and the search must not allocate.
        while let Some(name) = headers.keys().find(|name| self.covers(name.as_str())).cloned() {
            headers.remove(name);
            found = true;
        }
        found
    }
}

/// Returns whether servers that do not distinguish `_` and `-` treat the names as equal.
pub(super) fn is_same_name(one: &str, other: &str) -> bool {
    one.len() == other.len() && fold(one.as_bytes()).eq(fold(other.as_bytes()))
}

fn fold(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter().map(|byte| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() })
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    #[test]
    fn remote_and_configured_names_match_in_every_spelling() {
        let protected = ProtectedHeaders::new(["X-Caller", "x-remote-user"]);
        for name in [
            "x-remote-user",
            "X_Remote_User",
            "x-remote-group",
            "x-remote-groups",
            "x-remote-uid",
            "x-remote-extra-scopes",
            "x_remote_extra_a",
            "x-caller",
            "X_CALLER",
        ] {
            assert!(protected.covers(name), "{name}");
        }
        for name in
            ["x-remote", "x-remote-users", "x-remote-extra", "host", "xremoteuser", "authorization", ""]
        {
            assert!(!protected.covers(name), "{name}");
        }
    }

    #[test]
    fn strip_removes_all_values_and_nothing_else() {
        let protected = ProtectedHeaders::new(["x-caller"]);
        let mut headers = HeaderMap::new();
        for name in ["x-remote-user", "x-remote-user", "x_caller", "x-remote-extra-a", "accept", "x-caller"] {
            headers.append(HeaderName::from_static(name), "root".parse().unwrap());
        }
        assert!(protected.strip(&mut headers));
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
        assert!(!protected.strip(&mut headers));
    }
}
