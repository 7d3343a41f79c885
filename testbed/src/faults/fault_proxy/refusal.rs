//! An answer of the proxy's own making, in the form that the API server gives its refusals.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};

/// A refusal: an HTTP code with the `Status` object that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
    retry_after: Option<Duration>,
}

impl Refusal {
    /// A refusal with this code, and with the reason that the API server gives most often with it.
    #[must_use]
    pub fn of(code: StatusCode) -> Self {
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
        Self { code, reason, message: "refused by the fault proxy".into(), retry_after: None }
    }

    /// With another reason, such as `AlreadyExists` for 409.
    #[must_use]
    pub fn reason(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    /// With a message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Tells the client to come back after this time, which is rounded up to seconds.
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

    /// The `Status` object.
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

    /// The whole answer.
    pub(super) fn answer(&self) -> Response<Full<Bytes>> {
        let mut answer = Response::new(Full::new(Bytes::from(self.status().to_string())));
        *answer.status_mut() = self.code;
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_seconds() {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_reads_like_one_of_the_api_server() {
        let refusal = Refusal::of(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_millis(1001));
        assert_eq!(refusal.status()["reason"], "TooManyRequests");
        assert_eq!(refusal.status()["details"]["retryAfterSeconds"], 2);
        assert_eq!(refusal.answer().headers()[RETRY_AFTER], "2");
        let exists = Refusal::of(StatusCode::CONFLICT).reason("AlreadyExists").message("there");
        assert_eq!(exists.status()["reason"], "AlreadyExists");
        assert_eq!(exists.status()["message"], "there");
        assert!(exists.answer().headers().get(RETRY_AFTER).is_none());
    }
}
