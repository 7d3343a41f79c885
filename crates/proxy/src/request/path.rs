//! Request paths. RBAC, the `--ignore-paths` patterns and the upstream each interpret the path; a path that
//! two of them could interpret differently is rejected before any of them sees it.

use std::borrow::Cow;

/// Why a path is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathError {
    /// It does not start with a slash.
    NotAbsolute,
    /// Two consecutive slashes: some servers merge them.
    EmptySegment,
    /// `.` or `..`, also encoded or with parameters: some servers resolve them.
    DotSegment,
    /// A backslash, also encoded: some servers treat it as a slash.
    Backslash,
    /// An encoded slash: some servers treat it as a slash.
    EncodedSlash,
    /// A NUL byte: some servers stop there.
    Nul,
    /// A percent sign without two hexadecimal digits.
    BadEscape,
    /// Not UTF-8 when decoded: a SubjectAccessReview cannot contain it.
    NotUtf8,
}

/// Returns the decoded path, if it has only one interpretation.
pub(crate) fn canonicalize(raw: &str) -> Result<Cow<'_, str>, PathError> {
    if !raw.starts_with('/') {
        return Err(PathError::NotAbsolute);
    }
    let decoded = decode(raw)?;
    let mut segments = decoded.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let name = segment.split(';').next().unwrap_or_default();
        if segment.is_empty() && segments.peek().is_some() {
            return Err(PathError::EmptySegment);
        }
        if name == "." || name == ".." {
            return Err(PathError::DotSegment);
        }
    }
    Ok(decoded)
}

fn decode(raw: &str) -> Result<Cow<'_, str>, PathError> {
    if raw.contains('\\') {
        return Err(PathError::Backslash);
    }
    if !raw.contains('%') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (decoded, after) = decode_escape(after).ok_or(PathError::BadEscape)?;
        match decoded {
            b'/' => return Err(PathError::EncodedSlash),
            b'\\' => return Err(PathError::Backslash),
            0 => return Err(PathError::Nul),
            byte => bytes.push(byte),
        }
        rest = after;
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| PathError::NotUtf8)
}

/// Decodes two hexadecimal digits and returns the rest.
pub(super) fn decode_escape(after_percent: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = after_percent.split_at_checked(2)?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(*digits.first()?)? * 16 + digit(*digits.last()?)?;
    Some((u8::try_from(value).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unambiguous_paths_are_decoded() {
        for (raw, decoded) in [
            ("/", "/"),
            ("/metrics", "/metrics"),
            ("/a/b/", "/a/b/"),
            ("/a%20b", "/a b"),
            ("/%C3%A4", "/ä"),
            ("/a;b=c/d", "/a;b=c/d"),
            ("/.hidden/..more/a.", "/.hidden/..more/a."),
            ("/%2ehidden", "/.hidden"),
            ("/100%25", "/100%"),
        ] {
            assert_eq!(canonicalize(raw).unwrap(), decoded, "{raw}");
        }
    }

    #[test]
    fn ambiguous_paths_are_rejected() {
        use PathError::*;
        for (raw, error) in [
            ("metrics", NotAbsolute),
            ("", NotAbsolute),
            ("//metrics", EmptySegment),
            ("/a//b", EmptySegment),
            ("/a//", EmptySegment),
            ("/.", DotSegment),
            ("/a/./b", DotSegment),
            ("/a/../b", DotSegment),
            ("/metrics/%2e%2e/admin", DotSegment),
            ("/metrics/%2E./admin", DotSegment),
            ("/metrics/..;x=y/admin", DotSegment),
            ("/metrics/%2e%2e%3bx/admin", DotSegment),
            ("/a%2fb", EncodedSlash),
            ("/a%2Fb", EncodedSlash),
            ("/a\\b", Backslash),
            ("/a%5cb", Backslash),
            ("/a%00", Nul),
            ("/a%", BadEscape),
            ("/a%2", BadEscape),
            ("/a%+1", BadEscape),
            ("/a%zz", BadEscape),
            ("/%ff", NotUtf8),
        ] {
            assert_eq!(canonicalize(raw), Err(error), "{raw}");
        }
    }
}
