//! How the text of a setting that only the aggregator has is read.

/// Whether sick plugins that only decrypt degrade.
pub(super) fn degrade_or_tell(text: &str) -> Result<bool, String> {
    match text {
        "degrade" => Ok(true),
        "tell" => Ok(false),
        _ => Err(format!("{text:?} is neither degrade nor tell")),
    }
}
