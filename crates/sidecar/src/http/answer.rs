//! Answers, in the words that clients know.

use api::sidecar_wire::{ErrorBody, TaskState};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::Serialize;

use crate::ledger::{self, Json, Task};

pub(super) type Answer = Response<Full<Bytes>>;

/// A task, as clients see it. Who gave it is not part of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    status: TaskState,
    run: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    submitted_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
}

impl From<Task> for Shown {
    fn from(task: Task) -> Self {
        Self {
            id: task.id,
            kind: task.kind,
            status: task.state,
            run: task.run,
            params: task.params,
            result: task.result,
            error: task.error,
            submitted_at: task.submitted_at.for_clients(),
            completed_at: task.completed_at.map(|moment| moment.for_clients()),
        }
    }
}

/// A value as JSON, with a newline. What browsers could take for markup is escaped: these characters stand only in strings.
pub(super) fn json(code: StatusCode, body: &impl Serialize) -> Answer {
    let Ok(text) = serde_json::to_string(body) else { return empty(StatusCode::INTERNAL_SERVER_ERROR) };
    let mut escaped = String::with_capacity(text.len() + 1);
    for one in text.chars() {
        match one {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            one => escaped.push(one),
        }
    }
    escaped.push('\n');
    with_type(code, "application/json", escaped)
}

/// A refusal.
pub(super) fn error(code: StatusCode, why: impl Into<String>) -> Answer {
    json(code, &ErrorBody { error: why.into() })
}

/// The ledger failed: never "not found", and never "nothing there".
pub(super) fn unavailable(error: &ledger::Error) -> Answer {
    later(error.to_string())
}

/// Not now.
pub(super) fn later(why: String) -> Answer {
    let mut answer = error(StatusCode::SERVICE_UNAVAILABLE, why);
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// A line of text, as Go's router answers.
pub(super) fn text(code: StatusCode, line: &str) -> Answer {
    let mut answer = with_type(code, "text/plain; charset=utf-8", format!("{line}\n"));
    answer.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Another method is needed.
pub(super) fn not_allowed(allow: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    answer
}

/// Only a code.
pub(super) fn empty(code: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = code;
    answer
}

/// Some text of a type.
pub(super) fn with_type(code: StatusCode, content_type: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
