//! What the client reads from responses of a sidecar.

use api::sidecar_wire::{ChainStatus, ErrorBody, TaskResult};
use http::StatusCode;

use super::error::CallError;

/// The longest error text of a sidecar that is copied into a status.
const MAX_ERROR_BYTES: usize = 1024;

/// The longest app hash: 64 bytes.
const MAX_HASH_DIGITS: usize = 128;

/// Parses the state of a task. Returns `None` for another task.
pub(super) fn parse_task(body: &[u8], id: &str) -> Option<TaskResult> {
    let mut result: TaskResult = serde_json::from_slice(body).ok()?;
    result.error = result.error.as_deref().map(truncate);
    (result.id == id).then_some(result)
}

/// Parses the state of the chain. App hashes become part of messages: anything else is rejected.
pub(super) fn parse_chain(body: &[u8], app_hash_at: Option<i64>) -> Option<ChainStatus> {
    let status: ChainStatus = serde_json::from_slice(body).ok()?;
    let requested = status.app_hash_at.as_ref();
    let is_requested = requested.is_none_or(|requested| Some(requested.height) == app_hash_at);
    let hashes = status.app_hash.iter().chain(requested.map(|requested| &requested.app_hash));
    (is_requested && hashes.into_iter().all(|hash| is_app_hash(hash))).then_some(status)
}

fn is_app_hash(text: &str) -> bool {
    (1..=MAX_HASH_DIGITS).contains(&text.len())
        && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F'))
}

/// Returns the error text of a sidecar, or else the status.
pub(super) fn parse_error(status: StatusCode, body: &[u8]) -> String {
    let error = serde_json::from_slice::<ErrorBody>(body).ok().map(|body| truncate(&body.error));
    error.filter(|error| !error.is_empty()).unwrap_or_else(|| status_error(status).to_string())
}

/// Returns the error for a status code.
pub(super) fn status_error(status: StatusCode) -> CallError {
    match status {
        StatusCode::UNAUTHORIZED => CallError::Unauthorized,
        StatusCode::FORBIDDEN => CallError::Forbidden,
        other => CallError::Status(other.as_u16()),
    }
}

/// Truncates a text to a length that fits a status.
fn truncate(text: &str) -> String {
    let text = text.trim();
    if text.len() <= MAX_ERROR_BYTES {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(MAX_ERROR_BYTES)])
}
