//! Request paths, decoded and cleaned like Go's `http.ServeMux`.

/// Percent-decodes a path; returns it unchanged if it is malformed.
pub(super) fn decode(path: &str) -> String {
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

/// Returns the clean form of a path with empty, `.` or `..` segments; `None` if it is clean.
pub(super) fn clean(path: &str) -> Option<String> {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut clean = format!("/{}", segments.join("/"));
    if path.ends_with('/') && clean != "/" {
        clean.push('/');
    }
    (clean != path).then_some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_runs_once_and_keeps_malformed_paths() {
        assert_eq!(decode("/v0/%68ealthz"), "/v0/healthz");
        assert_eq!(decode("/v0/%2568ealthz"), "/v0/%68ealthz");
        for malformed in ["/a%", "/a%4", "/a%zz", "/a%ff"] {
            assert_eq!(decode(malformed), malformed);
        }
    }

    #[test]
    fn clean_removes_empty_and_dot_segments() {
        for (path, expected) in [
            ("//v0/tasks", "/v0/tasks"),
            ("/v0//tasks", "/v0/tasks"),
            ("/v0/../v0/tasks", "/v0/tasks"),
            ("/v0/./tasks/", "/v0/tasks/"),
            ("/../..", "/"),
        ] {
            assert_eq!(clean(path).as_deref(), Some(expected), "{path}");
        }
        for path in ["/", "/v0/tasks", "/v0/tasks/"] {
            assert_eq!(clean(path), None, "{path}");
        }
    }
}
