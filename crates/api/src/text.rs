//! Text of a limited length.

/// Shows that text was cut.
const CUT: &str = "...";

/// At most `limit` characters, with a mark when some are missing.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let kept = limit.saturating_sub(CUT.len());
    text.chars().take(kept).chain(CUT.chars().take(limit)).collect()
}
