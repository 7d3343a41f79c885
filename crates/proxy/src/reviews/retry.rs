//! Which failures are retried, and when.

use std::error::Error as StdError;
use std::time::Duration;

use super::{Error, ReviewKind};

/// Attempts in all.
const MAX_ATTEMPTS: u32 = 5;
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);

/// The delay requested by the server, if any.
pub(super) type RetryAfter = Option<Duration>;

/// Counts attempts.
#[derive(Debug, Default)]
pub(super) struct Retry {
    attempts: u32,
}

impl Retry {
    /// Returns the backoff before the next attempt, or `None` when all attempts are used up.
    pub(super) fn next_delay(&mut self, retry_after: RetryAfter) -> Option<Duration> {
        self.attempts += 1;
        if self.attempts >= MAX_ATTEMPTS {
            return None;
        }
        let growth = 1.5_f64.powi(i32::try_from(self.attempts).unwrap_or(i32::MAX) - 1);
        let jitter = 1.0 + 0.2 * fastrand::f64();
        let backoff = INITIAL_BACKOFF.mul_f64(growth * jitter);
        Some(retry_after.map_or(backoff, |retry_after| retry_after.max(backoff)))
    }
}

/// Converts an error, and returns whether to retry. An overloaded or restarting server may answer soon; one
/// that is unreachable or denies the request will not.
pub(super) fn classify(kind: ReviewKind, error: kube::Error) -> (Error, Option<RetryAfter>) {
    let kind = kind.name();
    match error {
        kube::Error::Api(status) => {
            let retry_after = status
                .details
                .as_ref()
                .map(|details| details.retry_after_seconds)
                .filter(|seconds| *seconds > 0)
                .map(|seconds| Duration::from_secs(u64::from(seconds)));
            let retryable = retry_after.is_some() || matches!(status.code, 429 | 500 | 504);
            let message = status.message.clone();
            (Error::Rejected { kind, code: status.code, message }, retryable.then_some(retry_after))
        }
        error => {
            let is_lost_connection = is_connection_lost(&error);
            (Error::Unreachable { kind, message: error_chain(&error) }, is_lost_connection.then_some(None))
        }
    }
}

/// Returns whether an established connection was lost. A connection that could not be established is not
/// retried.
fn is_connection_lost(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>()
            && matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe)
        {
            return true;
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_closed() || error.is_canceled())
        {
            return true;
        }
        cause = error.source();
    }
    false
}

fn error_chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api_error(code: u16, seconds: u32) -> kube::Error {
        let status = serde_json::json!({ "code": code, "message": "m", "reason": "r", "status": "Failure",
            "details": { "retryAfterSeconds": seconds } });
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn transient_errors_are_retried_and_denials_are_not() {
        let retryable = |error| classify(ReviewKind::Token, error).1;
        for code in [429, 500, 504] {
            assert_eq!(retryable(api_error(code, 0)), Some(None), "{code}");
        }
        assert_eq!(retryable(api_error(503, 3)), Some(Some(Duration::from_secs(3))));
        for code in [401, 403, 404, 503] {
            assert_eq!(retryable(api_error(code, 0)), None, "{code}");
        }
        let io = |kind| kube::Error::Service(Box::new(std::io::Error::from(kind)));
        assert_eq!(retryable(io(std::io::ErrorKind::ConnectionReset)), Some(None));
        assert_eq!(retryable(io(std::io::ErrorKind::ConnectionRefused)), None);
    }

    #[test]
    fn five_attempts_take_about_four_seconds() {
        let mut retry = Retry::default();
        let waits: Vec<Duration> = std::iter::from_fn(|| retry.next_delay(None)).collect();
        let total: Duration = waits.iter().sum();
        assert_eq!(waits.len(), 4);
        assert!(total > Duration::from_secs(4) && total < Duration::from_secs(5), "{total:?}");
        assert!(Retry::default().next_delay(Some(Duration::from_secs(9))) >= Some(Duration::from_secs(9)));
    }
}
