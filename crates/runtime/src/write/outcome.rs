//! What is known about a write.

use kube::core::Status;

/// What became of a write.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Outcome<K> {
    /// The object is as it should be; nothing was written.
    Unchanged,
    /// Written; the object as it is now.
    Applied(K),
    /// Not written: the object has changed, or was made, since it was read. Read it again.
    Stale(String),
    /// Not written: there is no such object, or no such namespace.
    Missing,
    /// Not written: fields belong to somebody else. Who and which, in the API server's words.
    Conflict(String),
    /// Not written, and will not be as long as it is the same: why.
    Rejected(String),
    /// Not written: we may not, or a quota is used up. People can change that without changing what we want.
    Forbidden(String),
    /// Not written, for now: the API server is busy or ill.
    Unavailable(String),
    /// Whether it was written is not known: no answer came. Read the object again; never repeat blindly.
    Unknown(String),
}

impl<K> Outcome<K> {
    /// What it means, when it was written.
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

    /// Reads an answer that is no success.
    pub(super) fn of(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(&status),
            // Never reached the API server: nothing was sent.
            kube::Error::Auth(error) => Self::Unavailable(error.to_string()),
            error => Self::Unknown(error.to_string()),
        }
    }

    fn of_status(status: &Status) -> Self {
        let message = status.message.clone();
        let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
        match status.code {
            409 if causes.iter().any(|cause| cause.reason == "FieldManagerConflict") => {
                Self::Conflict(message)
            }
            409 => Self::Stale(message),
            404 => Self::Missing,
            401 | 403 => Self::Forbidden(message),
            // The work may have been done after a gateway, or the server, gave up waiting for it.
            504 | 408 => Self::Unknown(message),
            429 | 500.. => Self::Unavailable(message),
            _ => Self::Rejected(message),
        }
    }

    /// One word of a closed list, for metrics.
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
