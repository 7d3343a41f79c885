//! Patterns of paths, in the dialect of Go's `path.Match`: the whole path must match, `*` and `?` do not cross slashes.

/// A pattern that can be matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This character.
    Char(char),
    /// Any one but a slash.
    One,
    /// Any run without a slash.
    Run,
    /// One of these ranges, or none of them. Go lets a class match a slash too.
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Pattern {
    /// Reads a pattern; `None` for one that is not well formed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            parts.push(match char {
                '*' => Part::Run,
                '?' => Part::One,
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

    /// Whether the whole of a path matches.
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

/// Walks along both; a `*` that fails is tried again one character later, which takes at most one such memory, since a later `*`
/// makes an earlier one's choice irrelevant.
fn matches(parts: &[Part], path: &str) -> bool {
    let (mut rest, mut text) = (parts, path);
    let mut again: Option<(&[Part], &str)> = None;
    loop {
        let stepped = match rest.split_first() {
            None if text.is_empty() => return true,
            None => None,
            Some((Part::Run, more)) => {
                again = Some((more, text));
                Some((more, text))
            }
            Some((part, more)) => {
                let mut chars = text.chars();
                chars.next().filter(|&char| fits(part, char)).map(|_| (more, chars.as_str()))
            }
        };
        match stepped {
            Some(next) => (rest, text) = next,
            None => {
                let Some((more, from)) = again else { return false };
                let mut chars = from.chars();
                if chars.next().is_none_or(|char| char == '/') {
                    return false;
                }
                again = Some((more, chars.as_str()));
                (rest, text) = (more, chars.as_str());
            }
        }
    }
}

fn fits(part: &Part, char: char) -> bool {
    match part {
        Part::Char(wanted) => *wanted == char,
        Part::One => char != '/',
        Part::Run => false,
        Part::Class { negated, ranges } => {
            ranges.iter().any(|&(low, high)| (low..=high).contains(&char)) != *negated
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths_and_stars_stay_between_slashes() {
        for (pattern, path, fits) in [
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
            assert_eq!(Pattern::parse(pattern).unwrap().matches(path), fits, "{pattern} {path}");
        }
    }

    /// CLI-04.
    #[test]
    fn patterns_that_are_not_well_formed_are_refused() {
        for bad in ["[", "/[a", "/[]", "/[-]", "/[a-]", "/a\\", "/[^]"] {
            assert_eq!(Pattern::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = Pattern::parse(&format!("/{}b", "*a".repeat(200))).unwrap();
        assert!(!pattern.matches(&format!("/{}", "a".repeat(5_000))));
    }
}
