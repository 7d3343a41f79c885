//! Truncation of text.

const ELLIPSIS: &str = "...";

/// Truncates to `limit` characters, with an ellipsis.
pub(crate) fn truncate(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let kept = limit.saturating_sub(ELLIPSIS.len());
    text.chars().take(kept).chain(ELLIPSIS.chars().take(limit)).collect()
}
