//! Outcomes of writes.

use kube::core::Status;

/// The outcome of a write.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum WriteOutcome<K> {
    /// The object is in sync; nothing was written.
    Unchanged,
    /// Written. Holds the resulting object.
    Applied(K),
    /// Not written: the object was changed, recreated or created since it was read. Read it again.
    Stale(String),
    /// Not written: the object or its namespace does not exist.
    Missing,
    /// Not written: another field manager owns a field. Holds the API server's message, which names both.
    Conflict(String),
    /// Not written: the object is invalid. A retry fails until the object is changed.
    Rejected(String),
    /// Not written: missing permissions or an exceeded quota. A retry may succeed once an administrator has fixed that.
    Forbidden(String),
    /// Not written: the API server is overloaded or failing. Retry later.
    Unavailable(String),
    /// No response: the write may or may not have been applied. Read the object before any retry.
    Unknown(String),
}

impl<K> WriteOutcome<K> {
    /// Maps [`WriteOutcome::Applied`].
    pub(super) fn and_then<T>(self, applied: impl FnOnce(K) -> WriteOutcome<T>) -> WriteOutcome<T> {
        match self {
            Self::Applied(object) => applied(object),
            Self::Unchanged => WriteOutcome::Unchanged,
            Self::Stale(why) => WriteOutcome::Stale(why),
            Self::Missing => WriteOutcome::Missing,
            Self::Conflict(why) => WriteOutcome::Conflict(why),
            Self::Rejected(why) => WriteOutcome::Rejected(why),
            Self::Forbidden(why) => WriteOutcome::Forbidden(why),
            Self::Unavailable(why) => WriteOutcome::Unavailable(why),
            Self::Unknown(why) => WriteOutcome::Unknown(why),
        }
    }

    /// Classifies a failed request.
    pub(super) fn from_error(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(&status),
            // Fails before the request is sent.
            kube::Error::Auth(error) => Self::Unavailable(error.to_string()),
            error => Self::Unknown(error.to_string()),
        }
    }

    fn from_status(status: &Status) -> Self {
        let message = status.message.clone();
        let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
        match status.code {
            409 if causes.iter().any(|cause| cause.reason == "FieldManagerConflict") => {
                Self::Conflict(message)
            }
            409 => Self::Stale(message),
            404 => Self::Missing,
            401 | 403 => Self::Forbidden(message),
            // A gateway or the server timed out waiting; the write may still have been applied.
            504 | 408 => Self::Unknown(message),
            429 | 500.. => Self::Unavailable(message),
            _ => Self::Rejected(message),
        }
    }

    /// Returns the written object, `None` if it was in sync already, or why the write failed.
    pub fn into_result(self) -> Result<Option<K>, String> {
        match self {
            Self::Applied(object) => Ok(Some(object)),
            Self::Unchanged => Ok(None),
            Self::Missing => Err("object or namespace not found".into()),
            Self::Stale(why)
            | Self::Conflict(why)
            | Self::Rejected(why)
            | Self::Forbidden(why)
            | Self::Unavailable(why)
            | Self::Unknown(why) => Err(why),
        }
    }

    /// Returns the value of the metric label `outcome`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Applied(_) => "applied",
            Self::Stale(_) => "stale",
            Self::Missing => "missing",
            Self::Conflict(_) => "conflict",
            Self::Rejected(_) => "rejected",
            Self::Forbidden(_) => "forbidden",
            Self::Unavailable(_) => "unavailable",
            Self::Unknown(_) => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_applied_and_unchanged_are_successes() {
        assert_eq!(WriteOutcome::Applied(1).into_result(), Ok(Some(1)));
        assert_eq!(WriteOutcome::<u8>::Unchanged.into_result(), Ok(None));
        assert_eq!(WriteOutcome::<u8>::Missing.into_result(), Err("object or namespace not found".into()));
        for failure in [
            WriteOutcome::<u8>::Stale,
            WriteOutcome::Conflict,
            WriteOutcome::Rejected,
            WriteOutcome::Forbidden,
            WriteOutcome::Unavailable,
            WriteOutcome::Unknown,
        ] {
            assert_eq!(failure("why".into()).into_result(), Err("why".into()));
        }
    }
}
