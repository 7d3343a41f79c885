//! Path patterns with the semantics of Go's `path.Match`: the whole path must match, `*` and `?` do not match
//! a slash.

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This character.
    Char(char),
    /// Any character except a slash.
    AnyChar,
    /// Any sequence without a slash.
    Star,
    /// A character in (or not in) one of the ranges. As in Go, a class can match a slash.
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Pattern {
    /// Parses a pattern; `None` when it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            parts.push(match char {
                '*' => Part::Star,
                '?' => Part::AnyChar,
                '\\' => Part::Char(chars.next()?),
                '[' => {
                    let negated = chars.next_if_eq(&'^').is_some();
                    let mut ranges = Vec::new();
                    while ranges.is_empty() || chars.next_if_eq(&']').is_none() {
                        let low = class_char(&mut chars)?;
                        let high =
                            if chars.next_if_eq(&'-').is_some() { class_char(&mut chars)? } else { low };
                        ranges.push((low, high));
                    }
                    Part::Class { negated, ranges }
                }
                char => Part::Char(char),
            });
        }
        Some(Self { parts })
    }

    /// Returns whether the whole path matches.
    pub(crate) fn matches(&self, path: &str) -> bool {
        matches(&self.parts, path)
    }
}

fn class_char(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match chars.next()? {
        '-' | ']' => None,
        '\\' => chars.next(),
        char => Some(char),
    }
}

/// Matches greedily. When a match fails after a `*`, that `*` takes one more character; only the last `*`
/// needs to be remembered, because it makes the choices of earlier ones irrelevant.
fn matches(parts: &[Part], path: &str) -> bool {
    let (mut pattern, mut text) = (parts, path);
    let mut backtrack: Option<(&[Part], &str)> = None;
    loop {
        let step = match pattern.split_first() {
            None if text.is_empty() => return true,
            None => None,
            Some((Part::Star, remaining)) => {
                backtrack = Some((remaining, text));
                Some((remaining, text))
            }
            Some((part, remaining)) => {
                let mut chars = text.chars();
                chars.next().filter(|&char| matches_char(part, char)).map(|_| (remaining, chars.as_str()))
            }
        };
        match step {
            Some(next) => (pattern, text) = next,
            None => {
                let Some((remaining, start)) = backtrack else { return false };
                let mut chars = start.chars();
                if chars.next().is_none_or(|char| char == '/') {
                    return false;
                }
                backtrack = Some((remaining, chars.as_str()));
                (pattern, text) = (remaining, chars.as_str());
            }
        }
    }
}

fn matches_char(part: &Part, char: char) -> bool {
    match part {
        Part::Char(expected) => *expected == char,
        Part::AnyChar => char != '/',
        Part::Star => false,
        Part::Class { negated, ranges } => {
            ranges.iter().any(|&(low, high)| (low..=high).contains(&char)) != *negated
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths_within_slashes() {
        for (pattern, path, is_match) in [
            ("/metrics", "/metrics", true),
            ("/metrics", "/metrics/", false),
            ("/api/v1/*", "/api/v1/label", true),
            ("/api/v1/*", "/api/v1/label/job", false),
            ("/api/v1/label/*/values", "/api/v1/label/job/values", true),
            ("/api/v1/label/*/values", "/api/v1/label/values", false),
            ("/*", "/", true),
            ("*", "/", false),
            ("/a*b*c", "/axxbyyc", true),
            ("/a*b*c", "/axxbyyd", false),
            ("/*/b", "/a/a/b", false),
            ("/a?c", "/abc", true),
            ("/a?c", "/a/c", false),
            ("/[a-c]x", "/bx", true),
            ("/[^a-c]x", "/bx", false),
            ("/[^a-c]x", "/dx", true),
            ("/\\*", "/*", true),
            ("/\\*", "/x", false),
            ("/ä?", "/äö", true),
            ("", "", true),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(path), is_match, "{pattern} {path}");
        }
    }

    #[test]
    fn malformed_patterns_are_rejected() {
        for bad in ["[", "/[a", "/[]", "/[-]", "/[a-]", "/a\\", "/[^]"] {
            assert_eq!(Pattern::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn many_stars_do_not_backtrack_exponentially() {
        let pattern = Pattern::parse(&format!("/{}b", "*a".repeat(200))).unwrap();
        assert!(!pattern.matches(&format!("/{}", "a".repeat(5_000))));
    }
}
