//! The path of a request, read in the one way that leaves no second one. RBAC, the patterns of `--ignore-paths` and the upstream
//! each look at the path; a path that two of them could understand differently is refused before any of them sees it (W6, W14).

use std::borrow::Cow;

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ambiguous {
    /// It does not begin with a slash.
    NotAbsolute,
    /// Two slashes in a row: some servers take them for one.
    EmptySegment,
    /// `.` or `..`, also encoded, also with parameters behind: some servers walk along them.
    DotSegment,
    /// A backslash, also encoded: some servers take it for a slash.
    Backslash,
    /// A slash in its encoded form: some servers take it for a slash.
    EncodedSlash,
    /// A zero byte: some servers stop there.
    Nul,
    /// A percent sign without two hexadecimal digits.
    BadEscape,
    /// Not UTF-8 when decoded: the API server cannot be asked about it.
    NotText,
}

/// The decoded path, if it can be read in one way only.
pub(crate) fn canonical(raw: &str) -> Result<Cow<'_, str>, Ambiguous> {
    if !raw.starts_with('/') {
        return Err(Ambiguous::NotAbsolute);
    }
    let decoded = decode(raw)?;
    let mut segments = decoded.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let name = segment.split(';').next().unwrap_or_default();
        if segment.is_empty() && segments.peek().is_some() {
            return Err(Ambiguous::EmptySegment);
        }
        if name == "." || name == ".." {
            return Err(Ambiguous::DotSegment);
        }
    }
    Ok(decoded)
}

fn decode(raw: &str) -> Result<Cow<'_, str>, Ambiguous> {
    if raw.contains('\\') {
        return Err(Ambiguous::Backslash);
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
        let (decoded, after) = escape(after).ok_or(Ambiguous::BadEscape)?;
        match decoded {
            b'/' => return Err(Ambiguous::EncodedSlash),
            b'\\' => return Err(Ambiguous::Backslash),
            0 => return Err(Ambiguous::Nul),
            byte => bytes.push(byte),
        }
        rest = after;
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Ambiguous::NotText)
}

/// The byte of two hexadecimal digits, and what is behind them.
pub(super) fn escape(after_sign: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = after_sign.split_at_checked(2)?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(*digits.first()?)? * 16 + digit(*digits.last()?)?;
    Some((u8::try_from(value).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_are_what_they_are() {
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
            assert_eq!(canonical(raw).unwrap(), decoded, "{raw}");
        }
    }

    /// W6, W14; PATH-01 to PATH-08.
    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        use Ambiguous::*;
        for (raw, why) in [
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
            ("/%ff", NotText),
        ] {
            assert_eq!(canonical(raw), Err(why), "{raw}");
        }
    }
}
