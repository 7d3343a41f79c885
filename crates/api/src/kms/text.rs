//! Text of plugins, made fit for an API server. Plugins say what they like; a report must be storable whatever they say.

use crate::text::cut;

/// Most characters of a report's detail.
pub const DETAIL_LIMIT: usize = 1024;

/// Most characters of a plugin's key id.
pub const KEY_ID_LIMIT: usize = 1024;

/// Makes text fit: at most `limit` characters, cut visibly, on one line, without characters that an apply cannot carry. An
/// apply is parsed as YAML, and a single one of those would refuse the reports of all of a node's plugins.
#[must_use]
pub fn clean(text: &str, limit: usize) -> String {
    let cleaned = text.chars().map(|c| match c {
        // Readers split messages at line ends.
        '\0'..='\x1f' | '\u{85}' | '\u{2028}' | '\u{2029}' => ' ',
        c if is_refused(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    });
    cut(&cleaned.collect::<String>(), limit)
}

/// Whether YAML does not allow a character, beyond those of line ends.
fn is_refused(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{feff}') || (c as u32) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_fits_stays() {
        for text in ["", "ok", "ключ 鍵 🔑", &"x".repeat(DETAIL_LIMIT)] {
            assert_eq!(clean(text, DETAIL_LIMIT), text);
        }
    }

    #[test]
    fn text_is_cut_at_a_character_and_shows_it() {
        let cut = clean(&"鍵".repeat(2000), DETAIL_LIMIT);
        assert_eq!(cut.chars().count(), DETAIL_LIMIT);
        assert!(cut.ends_with("鍵..."), "{cut}");
        assert_eq!(clean("abcdef", 2), "..");
    }

    #[test]
    fn what_an_apply_cannot_carry_is_replaced() {
        assert_eq!(
            clean("a\nb\0c\u{85}d\u{7f}e\u{fffe}f\u{1ffff}g", 99),
            "a b c d\u{fffd}e\u{fffd}f\u{fffd}g"
        );
    }
}
