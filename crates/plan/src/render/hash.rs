//! Short hashes, for annotations and status.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Returns the first sixteen hexadecimal digits of the SHA-256 of a text.
pub(super) fn hash_text(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the hash of a value. A type always serializes its fields in the same order, so that equal values have equal
/// hashes.
pub(super) fn hash_value(value: &impl Serialize) -> String {
    // Only maps with keys other than strings can fail, and there are none.
    hash_text(&serde_json::to_string(value).unwrap_or_default())
}
