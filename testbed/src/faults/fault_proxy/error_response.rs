//! Error responses of the proxy, in the format of the API server.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};

/// An error response: status code and `Status` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    code: StatusCode,
    reason: &'static str,
    message: String,
    retry_after: Option<Duration>,
}

impl ErrorResponse {
    /// Creates an error response with the most common reason of this code.
    #[must_use]
    pub fn new(code: StatusCode) -> Self {
        let reason = match code.as_u16() {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        Self { code, reason, message: "injected by the fault proxy".into(), retry_after: None }
    }

    /// Sets another reason, such as `AlreadyExists` for 409.
    #[must_use]
    pub fn reason(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    /// Sets the message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets `Retry-After`, rounded up to seconds.
    #[must_use]
    pub fn retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    pub(super) fn code(&self) -> StatusCode {
        self.code
    }

    fn retry_seconds(&self) -> Option<u64> {
        self.retry_after.map(|time| time.as_millis().div_ceil(1000) as u64)
    }

    /// Returns the `Status` object.
    pub(super) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code.as_u16(),
        });
        if let Some(seconds) = self.retry_seconds() {
            status["details"] = json!({ "retryAfterSeconds": seconds });
        }
        status
    }

    /// Returns the HTTP response.
    pub(super) fn to_response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.status().to_string())));
        *response.status_mut() = self.code;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_seconds() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_matches_the_api_server_format() {
        let error =
            ErrorResponse::new(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_millis(1001));
        assert_eq!(error.status()["reason"], "TooManyRequests");
        assert_eq!(error.status()["details"]["retryAfterSeconds"], 2);
        assert_eq!(error.to_response().headers()[RETRY_AFTER], "2");
        let exists = ErrorResponse::new(StatusCode::CONFLICT).reason("AlreadyExists").message("there");
        assert_eq!(exists.status()["reason"], "AlreadyExists");
        assert_eq!(exists.status()["message"], "there");
        assert!(exists.to_response().headers().get(RETRY_AFTER).is_none());
    }
}
