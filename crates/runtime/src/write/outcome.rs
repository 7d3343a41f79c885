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
    /// Not written: missing permissions, an exceeded quota, or an admission webhook or policy. A retry may succeed once an administrator
    /// has fixed that.
    Forbidden(String),
    /// Not written: the API server does not serve the kind. A retry may succeed once the CRD is installed.
    UnknownKind(String),
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
            Self::UnknownKind(why) => WriteOutcome::UnknownKind(why),
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
            // Whatever code a webhook or a policy denies with: its rule may change, and the object may be valid.
            400..500 if is_denied_by_admission(&message) => Self::Forbidden(message),
            409 if causes.iter().any(|cause| cause.reason == "FieldManagerConflict") => {
                Self::Conflict(message)
            }
            409 => Self::Stale(message),
            // The response about a missing object or namespace names it.
            404 if status.details.as_ref().is_none_or(|details| details.name.is_empty()) => {
                Self::UnknownKind(message)
            }
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
            | Self::UnknownKind(why)
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
            Self::UnknownKind(_) => "unknown_kind",
            Self::Unavailable(_) => "unavailable",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Returns whether the API server has denied a request because of an admission webhook or policy. Other than a violation of the schema,
/// that says nothing about the object: it may be accepted later. The response has no other sign of it.
fn is_denied_by_admission(message: &str) -> bool {
    message.contains("admission webhook \"") || message.contains("ValidatingAdmissionPolicy")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(code: u16, message: &str, details: serde_json::Value) -> &'static str {
        let status = json!({ "status": "Failure", "message": message, "reason": "", "code": code, "details": details });
        WriteOutcome::<u8>::from_status(&serde_json::from_value(status).unwrap()).name()
    }

    #[test]
    fn denials_of_admission_may_be_lifted_and_invalid_objects_stay_invalid() {
        let webhook = "admission webhook \"images.example.com\" denied the request: unsigned";
        let policy =
            "services \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        for code in [400, 403, 404, 409, 413, 422] {
            assert_eq!(outcome(code, webhook, json!({})), "forbidden", "{code}");
            assert_eq!(outcome(code, policy, json!({})), "forbidden", "{code}");
        }
        let invalid = "Service \"a\" is invalid: spec.ports: Required value";
        assert_eq!([400, 413, 422].map(|code| outcome(code, invalid, json!({}))), ["rejected"; 3]);
        assert_eq!(outcome(403, "exceeded quota: objects", json!({})), "forbidden");
        assert_eq!([429, 500, 503].map(|code| outcome(code, "busy", json!({}))), ["unavailable"; 3]);
        assert_eq!(outcome(503, webhook, json!({})), "unavailable");
    }

    #[test]
    fn missing_kind_is_not_a_missing_object() {
        let missing = json!({ "name": "sei", "kind": "namespaces" });
        assert_eq!(outcome(404, "namespaces \"sei\" not found", missing), "missing");
        assert_eq!(outcome(404, "404 page not found", json!(null)), "unknown_kind");
        assert_eq!(
            outcome(404, "the server could not find the requested resource", json!({})),
            "unknown_kind"
        );
    }

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
            WriteOutcome::UnknownKind,
            WriteOutcome::Unavailable,
            WriteOutcome::Unknown,
        ] {
            assert_eq!(failure("why".into()).into_result(), Err("why".into()));
        }
    }
}
