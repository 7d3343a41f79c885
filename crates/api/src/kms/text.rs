//! Sanitizes text from plugins: a report must be storable whatever a plugin returns.

use crate::text::truncate;

/// Maximum number of characters of a report's detail.
pub const DETAIL_LIMIT: usize = 1024;

/// Maximum number of characters of a plugin's key ID.
pub const KEY_ID_LIMIT: usize = 1024;

/// Sanitizes text: at most `limit` characters, truncated with an ellipsis, on one line, without characters that a server-side
/// apply cannot carry. An apply is parsed as YAML, and one such character would fail the reports of all plugins of a node.
#[must_use]
pub fn sanitize(text: &str, limit: usize) -> String {
    let cleaned = text.chars().map(|c| match c {
        // Consumers split messages at line ends.
        '\0'..='\x1f' | '\u{85}' | '\u{2028}' | '\u{2029}' => ' ',
        c if is_forbidden(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    });
    truncate(&cleaned.collect::<String>(), limit)
}

/// Returns whether YAML forbids a character, line ends excluded.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{feff}') || (c as u32) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_unchanged() {
        for text in ["", "ok", "ключ 鍵 🔑", &"x".repeat(DETAIL_LIMIT)] {
            assert_eq!(sanitize(text, DETAIL_LIMIT), text);
        }
    }

    #[test]
    fn long_text_is_truncated_with_ellipsis() {
        let truncated = sanitize(&"鍵".repeat(2000), DETAIL_LIMIT);
        assert_eq!(truncated.chars().count(), DETAIL_LIMIT);
        assert!(truncated.ends_with("鍵..."), "{truncated}");
        assert_eq!(sanitize("abcdef", 2), "..");
    }

    #[test]
    fn characters_forbidden_in_yaml_are_replaced() {
        assert_eq!(
            sanitize("a\nb\0c\u{85}d\u{7f}e\u{fffe}f\u{1ffff}g", 99),
            "a b c d\u{fffd}e\u{fffd}f\u{fffd}g"
        );
    }
}
