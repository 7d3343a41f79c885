//! The token of a request.

use http::{HeaderMap, header};

/// No token is longer; the largest that API servers issue are a few kilobytes.
const LONGEST: usize = 16 * 1024;

/// What a request says about its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bearer<'a> {
    /// Nothing, or something else than a token.
    Absent,
    /// This one.
    Token(&'a str),
    /// Something that no API server could ever have issued: it is not asked about it (W7).
    Impossible,
}

/// Two lines of `Authorization`: the proxy and the upstream could look at different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Twice;

/// The token in `Authorization`.
pub(crate) fn of(headers: &HeaderMap) -> Result<Bearer<'_>, Twice> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let Some(line) = lines.next() else { return Ok(Bearer::Absent) };
    if lines.next().is_some() {
        return Err(Twice);
    }
    let Ok(line) = line.to_str() else { return Ok(Bearer::Impossible) };
    let mut parts = line.trim().splitn(3, ' ');
    let scheme = parts.next().unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Bearer::Absent);
    }
    match parts.next() {
        None | Some("") => Ok(Bearer::Absent),
        Some(token) => Ok(judge(token)),
    }
}

/// A token by its letters: those of RFC 6750.
pub(crate) fn judge(token: &str) -> Bearer<'_> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=:|!*".contains(&byte);
    if token.len() <= LONGEST && token.bytes().all(letter) {
        Bearer::Token(token)
    } else {
        Bearer::Impossible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(lines: &[&str]) -> Result<String, Twice> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::AUTHORIZATION, line.parse().unwrap());
        }
        of(&headers).map(|bearer| match bearer {
            Bearer::Absent => "-".to_owned(),
            Bearer::Impossible => "!".to_owned(),
            Bearer::Token(token) => token.to_owned(),
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
        assert_eq!(bearer(&[&format!("Bearer {}", "a".repeat(LONGEST + 1))]).unwrap(), "!");
        for token in ["abcdef.0123456789abcdef", "sha256~aB-_", "eyJ.eyJ.sig_-", "YWJj+/=="] {
            assert_eq!(bearer(&[&format!("Bearer {token}")]).unwrap(), token);
        }
    }
}
