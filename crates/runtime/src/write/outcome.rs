//! Outcomes of writes.

use kube::core::Status;

/// The outcome of a write.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Outcome<K> {
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

impl<K> Outcome<K> {
    /// Maps [`Outcome::Applied`].
    pub(super) fn and_then<T>(self, applied: impl FnOnce(K) -> Outcome<T>) -> Outcome<T> {
        match self {
            Self::Applied(object) => applied(object),
            Self::Unchanged => Outcome::Unchanged,
            Self::Stale(why) => Outcome::Stale(why),
            Self::Missing => Outcome::Missing,
            Self::Conflict(why) => Outcome::Conflict(why),
            Self::Rejected(why) => Outcome::Rejected(why),
            Self::Forbidden(why) => Outcome::Forbidden(why),
            Self::Unavailable(why) => Outcome::Unavailable(why),
            Self::Unknown(why) => Outcome::Unknown(why),
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
