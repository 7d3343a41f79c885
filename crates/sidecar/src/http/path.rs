//! Paths of requests, as Go's router sees them.

/// A path without its percent signs. One that cannot be read is itself.
pub(super) fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits =
            [rest.next(), rest.next()].map(|digit| digit.and_then(|digit| (digit as char).to_digit(16)));
        let [Some(high), Some(low)] = digits else { return path.to_owned() };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
}

/// Where a path with empty or dotted parts should have gone to, if it has any.
pub(super) fn cleaned(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut clean = format!("/{}", parts.join("/"));
    if path.ends_with('/') && clean != "/" {
        clean.push('/');
    }
    (clean != path).then_some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_once() {
        assert_eq!(decoded("/v0/%68ealthz"), "/v0/healthz");
        assert_eq!(decoded("/v0/%2568ealthz"), "/v0/%68ealthz");
        for odd in ["/a%", "/a%4", "/a%zz", "/a%ff"] {
            assert_eq!(decoded(odd), odd);
        }
    }

    #[test]
    fn paths_that_are_not_clean_are_sent_elsewhere() {
        for (path, clean) in [
            ("//v0/tasks", "/v0/tasks"),
            ("/v0//tasks", "/v0/tasks"),
            ("/v0/../v0/tasks", "/v0/tasks"),
            ("/v0/./tasks/", "/v0/tasks/"),
            ("/../..", "/"),
        ] {
            assert_eq!(cleaned(path).as_deref(), Some(clean), "{path}");
        }
        for path in ["/", "/v0/tasks", "/v0/tasks/"] {
            assert_eq!(cleaned(path), None, "{path}");
        }
    }
}
