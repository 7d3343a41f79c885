//! HTTP responses in the format that upstream's clients expect.

use api::sidecar_wire::ErrorBody;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::Serialize;

use crate::ledger;

pub(super) type HttpResponse = Response<Full<Bytes>>;

/// A JSON body with a trailing newline. Escapes what browsers could take for markup, like Go's encoder.
pub(super) fn json(code: StatusCode, body: &impl Serialize) -> HttpResponse {
    let Ok(text) = serde_json::to_string(body) else { return empty(StatusCode::INTERNAL_SERVER_ERROR) };
    let mut escaped = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            c => escaped.push(c),
        }
    }
    escaped.push('\n');
    with_type(code, "application/json", escaped)
}

/// An error body.
pub(super) fn error(code: StatusCode, message: impl Into<String>) -> HttpResponse {
    json(code, &ErrorBody { error: message.into() })
}

/// A ledger failure: 503, never "not found" and never an empty list.
pub(super) fn ledger_error(error: &ledger::Error) -> HttpResponse {
    unavailable(error.to_string())
}

/// 503 with `Retry-After`.
pub(super) fn unavailable(message: String) -> HttpResponse {
    let mut response = error(StatusCode::SERVICE_UNAVAILABLE, message);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// A plain-text error, like Go's `http.Error`.
pub(super) fn text(code: StatusCode, line: &str) -> HttpResponse {
    let mut response = with_type(code, "text/plain; charset=utf-8", format!("{line}\n"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// 405 with the allowed methods.
pub(super) fn not_allowed(allow: &'static str) -> HttpResponse {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// A response without a body.
pub(super) fn empty(code: StatusCode) -> HttpResponse {
    let mut response = Response::new(Full::default());
    *response.status_mut() = code;
    response
}

/// A response with a content type.
pub(super) fn with_type(code: StatusCode, content_type: &'static str, body: String) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
