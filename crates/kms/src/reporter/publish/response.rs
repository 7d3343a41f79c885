//! Classifies API server responses to a publish.

use std::error::Error;
use std::time::Duration;

use api::names::manager::KMS_REPORTER_PREFIX;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use plan::kms::pace::WriteOutcome;
use prost::bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

/// Maximum size of a response body. An object has at most 1.5 MB in etcd, and more as JSON.
const BODY_LIMIT: usize = 8 * 1024 * 1024;

/// Outcome of a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::reporter) enum Outcome {
    /// The reports are stored.
    Stored,
    /// Only the smallest form was stored. Holds the error for the full one.
    StoredSmallest(String),
    /// The server rejected the reports as invalid, also in the smallest form.
    Rejected(String),
    /// The credentials were not accepted.
    Unauthenticated(String),
    /// RBAC or admission forbids the write.
    Forbidden(String),
    /// The object or its kind does not exist.
    Missing(String),
    /// The server is overloaded or failing.
    Unavailable(String),
    /// No server could be reached.
    Unreachable(String),
    /// The server did not respond within this time.
    Timeout(Duration),
    /// No usable credentials were found.
    NoCredentials(String),
}

impl Outcome {
    /// All values of [`Outcome::name`].
    pub(in crate::reporter) const NAMES: [&str; 10] = [
        "stored",
        "stored_smallest",
        "rejected",
        "unauthenticated",
        "forbidden",
        "missing",
        "unavailable",
        "unreachable",
        "timeout",
        "no_credentials",
    ];

    /// Returns the metric label of the outcome.
    pub(in crate::reporter) fn name(&self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::StoredSmallest(_) => "stored_smallest",
            Self::Rejected(_) => "rejected",
            Self::Unauthenticated(_) => "unauthenticated",
            Self::Forbidden(_) => "forbidden",
            Self::Missing(_) => "missing",
            Self::Unavailable(_) => "unavailable",
            Self::Unreachable(_) => "unreachable",
            Self::Timeout(_) => "timeout",
            Self::NoCredentials(_) => "no_credentials",
        }
    }

    /// Reports whether the object holds the reports.
    pub(in crate::reporter) fn is_stored(&self) -> bool {
        matches!(self, Self::Stored | Self::StoredSmallest(_))
    }

    /// Returns the error message; empty if everything was stored.
    pub(in crate::reporter) fn message(&self) -> String {
        match self {
            Self::Stored => String::new(),
            Self::StoredSmallest(why)
            | Self::Rejected(why)
            | Self::Unauthenticated(why)
            | Self::Forbidden(why)
            | Self::Missing(why)
            | Self::Unavailable(why)
            | Self::Unreachable(why)
            | Self::NoCredentials(why) => why.clone(),
            Self::Timeout(limit) => format!("no response within {limit:?}"),
        }
    }

    /// Returns what the outcome means for the pace of further writes.
    pub(in crate::reporter) fn pace_end(&self) -> WriteOutcome {
        match self {
            Self::Stored | Self::StoredSmallest(_) => WriteOutcome::Stored,
            Self::Unavailable(_) | Self::Timeout(_) => WriteOutcome::Busy,
            Self::Rejected(_)
            | Self::Unauthenticated(_)
            | Self::Forbidden(_)
            | Self::Missing(_)
            | Self::Unreachable(_)
            | Self::NoCredentials(_) => WriteOutcome::Failed,
        }
    }

    /// Reports whether another API server of the same cluster may succeed.
    pub(super) fn is_worth_failover(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::Unreachable(_) | Self::Timeout(_) | Self::NoCredentials(_)
        )
    }

    /// Reports whether a new client, with credentials read again, may succeed.
    pub(super) fn needs_new_client(&self) -> bool {
        matches!(self, Self::Unauthenticated(_) | Self::Unreachable(_) | Self::Timeout(_))
    }

    /// Classifies a request without a response.
    pub(super) fn from_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Auth(_) => Self::NoCredentials(error_chain(error)),
            error => Self::Unreachable(error_chain(error)),
        }
    }

    fn from_status(code: StatusCode, message: String) -> Self {
        // The API server returns 500 for an apply with a field that the schema does not have.
        if message.contains("field not declared in schema") {
            return Self::Rejected(message);
        }
        match code.as_u16() {
            401 => Self::Unauthenticated(message),
            403 => Self::Forbidden(message),
            404 => Self::Missing(message),
            // Applies are forced, so a conflict is a stale resourceVersion, not another field manager.
            408 | 409 | 429 | 500.. => Self::Unavailable(message),
            _ => Self::Rejected(message),
        }
    }
}

/// A failed request, with the delay of its Retry-After header.
pub(super) struct PublishError {
    pub(super) outcome: Outcome,
    pub(super) retry_after: Option<Duration>,
}

impl From<Outcome> for PublishError {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, retry_after: None }
    }
}

/// Reads a response to its end, so that the connection can be reused.
pub(super) async fn read(response: Response<Body>) -> Result<Bytes, PublishError> {
    let code = response.status();
    let retry_after = parse_retry_after(response.headers());
    let body = Limited::new(response.into_body(), BODY_LIMIT).collect().await;
    // A success counts even if the body cannot be read.
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    if code.is_success() {
        return Ok(bytes);
    }
    let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let message = status["message"].as_str().map_or_else(|| "no message".to_owned(), str::to_owned);
    Err(PublishError {
        outcome: Outcome::from_status(code, format!("{}: {message}", code.as_u16())),
        retry_after,
    })
}

/// Parses Retry-After in seconds. API servers do not send the date form.
fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// The metadata read from a response: resourceVersion and field managers.
#[derive(Default, Deserialize)]
pub(super) struct PartialObject {
    #[serde(default)]
    metadata: PartialMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PartialMetadata {
    resource_version: Option<String>,
    managed_fields: Vec<ManagedFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManagedFields {
    manager: String,
}

impl PartialObject {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// Returns the resourceVersion.
    pub(super) fn resource_version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }

    /// Returns the number of reporters among the field managers; `None` without managedFields.
    pub(super) fn writers(&self) -> Option<usize> {
        let all = &self.metadata.managed_fields;
        let reporters = all.iter().filter(|one| one.manager.starts_with(KMS_REPORTER_PREFIX)).count();
        (!all.is_empty()).then_some(reporters)
    }
}

/// Formats an error with its sources, each once.
fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let message = source.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_name_is_listed() {
        let text = String::new;
        let all = [
            Outcome::Stored,
            Outcome::StoredSmallest(text()),
            Outcome::Rejected(text()),
            Outcome::Unauthenticated(text()),
            Outcome::Forbidden(text()),
            Outcome::Missing(text()),
            Outcome::Unavailable(text()),
            Outcome::Unreachable(text()),
            Outcome::Timeout(Duration::ZERO),
            Outcome::NoCredentials(text()),
        ];
        assert_eq!(all.map(|outcome| outcome.name()), Outcome::NAMES);
    }

    #[test]
    fn rejection_is_distinguished_from_failing_server() {
        let name = |code, message: &str| {
            Outcome::from_status(StatusCode::from_u16(code).unwrap(), message.into()).name()
        };
        for (code, expected) in [
            (400, "rejected"),
            (401, "unauthenticated"),
            (403, "forbidden"),
            (404, "missing"),
            (409, "unavailable"),
            (422, "rejected"),
            (429, "unavailable"),
            (500, "unavailable"),
            (503, "unavailable"),
        ] {
            assert_eq!(name(code, ""), expected, "{code}");
        }
        assert_eq!(name(500, ".status.encryptionStatus: field not declared in schema"), "rejected");
    }

    #[test]
    fn retry_after_is_parsed_in_seconds() {
        let parse =
            |text: &str| parse_retry_after(&HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]));
        assert_eq!(parse("7"), Some(Duration::from_secs(7)));
        assert_eq!(parse("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(parse_retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn reporters_are_counted_by_field_manager() {
        let fields = serde_json::json!([
            { "manager": "kms-health-reporter-a", "operation": "Apply", "fieldsV1": { "f:status": {} } },
            { "manager": "kms-health-reporter-b" },
            { "manager": "outrigger-kms-aggregator" },
        ]);
        let response =
            serde_json::json!({ "metadata": { "resourceVersion": "12", "managedFields": fields } })
                .to_string();
        let object = PartialObject::parse(response.as_bytes());
        assert_eq!((object.resource_version(), object.writers()), (Some("12"), Some(2)));
        assert_eq!(PartialObject::parse(b"{}").writers(), None);
        assert_eq!(PartialObject::parse(b"no JSON").resource_version(), None);
    }
}
