//! Short hashes, for annotations and status.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Sixteen hexadecimal digits of the SHA-256 of a text.
pub(super) fn of_text(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The same over a value. The same types write their fields in the same order, so that the same value gives the same text.
pub(super) fn of(value: &impl Serialize) -> String {
    // All that can fail is a map whose keys are no text; there is none.
    of_text(&serde_json::to_string(value).unwrap_or_default())
}
