//! Headers by which an upstream knows who is asking. Nobody but the proxy may set them (W1, W2).

use http::header::HeaderMap;

/// Names that upstreams of Kubernetes proxies trust, whatever names are configured here.
const FAMILY: [&str; 4] = ["x-remote-user", "x-remote-group", "x-remote-groups", "x-remote-uid"];
const FAMILY_PREFIX: &str = "x-remote-extra-";

/// The set of protected names.
#[derive(Clone, Debug)]
pub(crate) struct Protected {
    configured: Vec<String>,
}

impl Protected {
    /// The family and these.
    pub(crate) fn new<'a>(configured: impl IntoIterator<Item = &'a str>) -> Self {
        let folded = |name: &str| fold(name.as_bytes()).map(char::from).collect::<String>();
        let configured = configured.into_iter().map(folded).filter(|name| !FAMILY.contains(&name.as_str()));
        Self { configured: configured.collect() }
    }

    /// Whether a name is protected, however it is spelled: many servers take `_` for `-`.
    pub(crate) fn covers(&self, name: &str) -> bool {
        let name = name.as_bytes();
        let is = |wanted: &str| name.len() == wanted.len() && fold(name).eq(wanted.bytes());
        // Nearly every header is told apart by its first letter.
        let family = matches!(name.first(), Some(b'x' | b'X'))
            && (FAMILY.iter().any(|wanted| is(wanted))
                || name
                    .get(..FAMILY_PREFIX.len())
                    .is_some_and(|begin| fold(begin).eq(FAMILY_PREFIX.bytes())));
        family || self.configured.iter().any(|wanted| is(wanted))
    }

    /// Removes every protected header. Says whether there was one.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) -> bool {
        let mut found = false;
        // One at a time: there are nearly never any, and looking must not allocate.
        while let Some(name) = headers.keys().find(|name| self.covers(name.as_str())).cloned() {
            headers.remove(name);
            found = true;
        }
        found
    }
}

fn fold(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter().map(|byte| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() })
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    /// W2, HDR-01, HDR-11.
    #[test]
    fn the_family_and_the_configured_names_are_covered_in_every_spelling() {
        let protected = Protected::new(["X-Caller", "x-remote-user"]);
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
    fn every_line_of_them_is_removed_and_nothing_else() {
        let protected = Protected::new(["x-caller"]);
        let mut headers = HeaderMap::new();
        for name in ["x-remote-user", "x-remote-user", "x_caller", "x-remote-extra-a", "accept", "x-caller"] {
            headers.append(HeaderName::from_static(name), "root".parse().unwrap());
        }
        assert!(protected.strip(&mut headers));
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
        assert!(!protected.strip(&mut headers));
    }
}
