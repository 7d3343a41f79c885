//! What an API server's answer means for a report.

use std::error::Error;
use std::time::Duration;

use api::names::manager::KMS_REPORTER_PREFIX;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use plan::kms::pace::End;
use prost::bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

/// Most bytes of an answer that are read. An object has at most 1.5 MB in etcd, and more as JSON.
const ANSWER_LIMIT: usize = 8 * 1024 * 1024;

/// How publishing ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::reporter) enum Outcome {
    /// The reports are stored.
    Stored,
    /// Only their smallest form could be stored: what the server says of the full one.
    StoredSmallest(String),
    /// The server finds them invalid, also in the smallest form.
    Rejected(String),
    /// The server does not know who we are.
    Unauthenticated(String),
    /// We may not.
    Forbidden(String),
    /// There is no such object, or no such kind.
    Missing(String),
    /// The server is busy or ill.
    Unavailable(String),
    /// No server answers.
    Unreachable(String),
    /// The server did not answer within this time.
    Timeout(Duration),
    /// There are no credentials that can be used.
    NoCredentials(String),
}

impl Outcome {
    /// Every name.
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

    /// One word of a closed list.
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

    /// Whether the reports are in the object.
    pub(in crate::reporter) fn is_stored(&self) -> bool {
        matches!(self, Self::Stored | Self::StoredSmallest(_))
    }

    /// What to tell people.
    pub(in crate::reporter) fn why(&self) -> String {
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
            Self::Timeout(limit) => format!("no answer within {limit:?}"),
        }
    }

    /// What it means for the next write.
    pub(in crate::reporter) fn end(&self) -> End {
        match self {
            Self::Stored | Self::StoredSmallest(_) => End::Stored,
            Self::Unavailable(_) | Self::Timeout(_) => End::Busy,
            Self::Rejected(_)
            | Self::Unauthenticated(_)
            | Self::Forbidden(_)
            | Self::Missing(_)
            | Self::Unreachable(_)
            | Self::NoCredentials(_) => End::Failed,
        }
    }

    /// Whether another way to the same cluster may do better.
    pub(super) fn is_of_the_way(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::Unreachable(_) | Self::Timeout(_) | Self::NoCredentials(_)
        )
    }

    /// Whether a client that is made anew may do better.
    pub(super) fn asks_for_new_credentials(&self) -> bool {
        matches!(self, Self::Unauthenticated(_) | Self::Unreachable(_) | Self::Timeout(_))
    }

    /// No answer came.
    pub(super) fn of_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Auth(_) => Self::NoCredentials(chain(error)),
            error => Self::Unreachable(chain(error)),
        }
    }

    fn of_refusal(code: StatusCode, message: String) -> Self {
        // A server that does not know a field of an apply says so as an error of its own.
        if message.contains("field not declared in schema") {
            return Self::Rejected(message);
        }
        match code.as_u16() {
            401 => Self::Unauthenticated(message),
            403 => Self::Forbidden(message),
            404 => Self::Missing(message),
            // A conflict is with somebody who was faster: by force nobody else can be in the way.
            408 | 409 | 429 | 500.. => Self::Unavailable(message),
            _ => Self::Rejected(message),
        }
    }
}

/// An answer that is no success: what it means, and how long the server asks not to be asked again.
pub(super) struct Refusal {
    pub(super) outcome: Outcome,
    pub(super) after: Option<Duration>,
}

impl From<Outcome> for Refusal {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, after: None }
    }
}

/// Reads an answer to its end, so that its connection can be used again.
pub(super) async fn read(response: Response<Body>) -> Result<Bytes, Refusal> {
    let code = response.status();
    let after = retry_after(response.headers());
    let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
    // Done is done, whatever the rest of the answer.
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    if code.is_success() {
        return Ok(bytes);
    }
    let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let message = status["message"].as_str().map_or_else(|| "no reason given".to_owned(), str::to_owned);
    Err(Refusal { outcome: Outcome::of_refusal(code, format!("{}: {message}", code.as_u16())), after })
}

/// Servers that have too much to do tell seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// What is read of an object: its version, and who has written it.
#[derive(Default, Deserialize)]
pub(super) struct Head {
    #[serde(default)]
    metadata: HeadMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadMetadata {
    resource_version: Option<String>,
    managed_fields: Vec<HeadManager>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadManager {
    manager: String,
}

impl Head {
    pub(super) fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// The version that is to be changed, and no other.
    pub(super) fn version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }

    /// How many reporters have written it; none in an answer that does not tell.
    pub(super) fn writers(&self) -> Option<usize> {
        let all = &self.metadata.managed_fields;
        let ours = all.iter().filter(|one| one.manager.starts_with(KMS_REPORTER_PREFIX)).count();
        (!all.is_empty()).then_some(ours)
    }
}

/// An error with all of its reasons, each once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let reason = source.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_name() {
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
    fn a_refusal_is_told_from_a_server_that_is_ill() {
        let of = |code, message: &str| {
            Outcome::of_refusal(StatusCode::from_u16(code).unwrap(), message.into()).name()
        };
        for (code, name) in [
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
            assert_eq!(of(code, ""), name, "{code}");
        }
        assert_eq!(of(500, ".status.encryptionStatus: field not declared in schema"), "rejected");
    }

    #[test]
    fn how_long_a_server_asks_to_be_left_alone_is_read_in_seconds() {
        let of = |text: &str| retry_after(&HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]));
        assert_eq!(of("7"), Some(Duration::from_secs(7)));
        assert_eq!(of("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn reporters_are_counted_by_their_managers() {
        let fields = serde_json::json!([
            { "manager": "kms-health-reporter-a", "operation": "Apply", "fieldsV1": { "f:status": {} } },
            { "manager": "kms-health-reporter-b" },
            { "manager": "outrigger-kms-aggregator" },
        ]);
        let answer = serde_json::json!({ "metadata": { "resourceVersion": "12", "managedFields": fields } })
            .to_string();
        let head = Head::read(answer.as_bytes());
        assert_eq!((head.version(), head.writers()), (Some("12"), Some(2)));
        assert_eq!(Head::read(b"{}").writers(), None);
        assert_eq!(Head::read(b"no JSON").version(), None);
    }
}
