//! Turns the outcome of an API write into a result.

use runtime::write::Outcome;

/// Returns the written object, `None` if the object was already in sync, or why the write failed.
pub(crate) fn into_result<K>(outcome: Outcome<K>) -> Result<Option<K>, String> {
    match outcome {
        Outcome::Applied(object) => Ok(Some(object)),
        Outcome::Unchanged => Ok(None),
        Outcome::Missing => Err("object or namespace not found".into()),
        Outcome::Stale(why)
        | Outcome::Conflict(why)
        | Outcome::Rejected(why)
        | Outcome::Forbidden(why)
        | Outcome::Unavailable(why)
        | Outcome::Unknown(why) => Err(why),
    }
}
