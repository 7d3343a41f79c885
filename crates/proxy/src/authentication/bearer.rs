//! Bearer tokens.

use http::{HeaderMap, header};

/// Maximum length of a token; the largest that API servers issue are a few kilobytes.
const MAX_LENGTH: usize = 16 * 1024;

/// More than one `Authorization` header: proxy and upstream could use different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DuplicateHeader;

/// Returns the token in `Authorization`, if there is one. Its characters are not checked: a cached token
/// needs no check.
pub(crate) fn token(headers: &HeaderMap) -> Result<Option<&[u8]>, DuplicateHeader> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(DuplicateHeader);
    }
    let value = value.as_bytes().trim_ascii();
    let bearer = split(value).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer"));
    let token = bearer.map(|(_, rest)| split(rest).map_or(rest, |(token, _)| token));
    Ok(token.filter(|token| !token.is_empty()))
}

/// Splits at the first space.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Returns the token if it has only characters of RFC 6750 and those that API servers use. Other tokens
/// cannot be valid and are rejected without a TokenReview.
pub(crate) fn well_formed(token: &[u8]) -> Option<&str> {
    let is_token_char = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=:|!*".contains(byte);
    let is_well_formed = token.len() <= MAX_LENGTH && token.iter().all(is_token_char);
    std::str::from_utf8(token).ok().filter(|_| is_well_formed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(values: &[&str]) -> Result<String, DuplicateHeader> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        token(&headers).map(|found| match found {
            None => "-".to_owned(),
            Some(token) => well_formed(token).unwrap_or("!").to_owned(),
        })
    }

    #[test]
    fn second_word_is_the_token() {
        for (value, token) in [
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
            assert_eq!(bearer(&[value]).unwrap(), token, "{value:?}");
        }
        assert_eq!(bearer(&[]).unwrap(), "-");
    }

    #[test]
    fn duplicate_authorization_is_rejected() {
        assert_eq!(bearer(&["Bearer a", "Bearer b"]), Err(DuplicateHeader));
    }

    #[test]
    fn malformed_token_needs_no_review() {
        assert_eq!(bearer(&["Bearer a\"b"]).unwrap(), "!");
        assert_eq!(well_formed("\u{e9}".as_bytes()), None);
        assert_eq!(bearer(&[&format!("Bearer {}", "a".repeat(MAX_LENGTH + 1))]).unwrap(), "!");
        for token in ["abcdef.0123456789abcdef", "sha256~aB-_", "eyJ.eyJ.sig_-", "YWJj+/=="] {
            assert_eq!(bearer(&[&format!("Bearer {token}")]).unwrap(), token);
        }
    }
}
