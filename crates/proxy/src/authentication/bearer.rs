//! The token of a request.

use http::{HeaderMap, header};

/// No token is longer; the largest that API servers issue are a few kilobytes.
const LONGEST: usize = 16 * 1024;

/// Two lines of `Authorization`: the proxy and the upstream could look at different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Twice;

/// The token in `Authorization`, if there is one. Its letters are not looked at: whose token is known need not be.
pub(crate) fn of(headers: &HeaderMap) -> Result<Option<&[u8]>, Twice> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(Twice);
    }
    let line = line.as_bytes().trim_ascii();
    let bearer = split(line).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer"));
    let token = bearer.map(|(_, rest)| split(rest).map_or(rest, |(token, _)| token));
    Ok(token.filter(|token| !token.is_empty()))
}

/// What is before and behind the first space.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// A token by its letters, which are those of RFC 6750. Anything else no API server could ever have issued: it is not asked about
/// it (W7).
pub(crate) fn possible(token: &[u8]) -> Option<&str> {
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=:|!*".contains(byte);
    let good = token.len() <= LONGEST && token.iter().all(letter);
    std::str::from_utf8(token).ok().filter(|_| good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(lines: &[&str]) -> Result<String, Twice> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::AUTHORIZATION, line.parse().unwrap());
        }
        of(&headers).map(|found| match found {
            None => "-".to_owned(),
            Some(token) => possible(token).unwrap_or("!").to_owned(),
        })
    }

    /// AUTHN-01 to AUTHN-05.
    #[test]
    fn the_second_word_is_the_token_and_the_third_is_not_looked_at() {
        for (line, token) in [
            ("Bearer abc", "abc"),
            ("bearer abc", "abc"),
            ("BEARER abc def", "abc"),
            ("  Bearer abc  ", "abc"),
            ("Bearer  abc", "-"),
            ("Bearer", "-"),
            ("Bearer ", "-"),
            ("Basic abc", "-"),
            ("", "-"),
            ("abc", "-"),
        ] {
            assert_eq!(bearer(&[line]).unwrap(), token, "{line:?}");
        }
        assert_eq!(bearer(&[]).unwrap(), "-");
    }

    /// AUTHN-06.
    #[test]
    fn two_lines_are_refused() {
        assert_eq!(bearer(&["Bearer a", "Bearer b"]), Err(Twice));
    }

    /// W7.
    #[test]
    fn what_cannot_be_a_token_is_known_without_asking() {
        assert_eq!(bearer(&["Bearer a\"b"]).unwrap(), "!");
        assert_eq!(possible("\u{e9}".as_bytes()), None);
        assert_eq!(bearer(&[&format!("Bearer {}", "a".repeat(LONGEST + 1))]).unwrap(), "!");
        for token in ["abcdef.0123456789abcdef", "sha256~aB-_", "eyJ.eyJ.sig_-", "YWJj+/=="] {
            assert_eq!(bearer(&[&format!("Bearer {token}")]).unwrap(), token);
        }
    }
}
