//! Which failures are tried again, and when.

use std::error::Error as StdError;
use std::time::Duration;

use super::{Error, Review};

/// Tries in all.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// The wait that the server asked for, if it did.
pub(super) type Asked = Option<Duration>;

/// The tries so far.
#[derive(Debug, Default)]
pub(super) struct Retry {
    tried: u32,
}

impl Retry {
    /// How long to wait until the next try; none when there were enough.
    pub(super) fn next(&mut self, asked: Asked) -> Option<Duration> {
        self.tried += 1;
        if self.tried >= TRIES {
            return None;
        }
        let growth = 1.5_f64.powi(i32::try_from(self.tried).unwrap_or(i32::MAX) - 1);
        let jitter = 1.0 + 0.2 * fastrand::f64();
        let own = FIRST_WAIT.mul_f64(growth * jitter);
        Some(asked.map_or(own, |asked| asked.max(own)))
    }
}

/// What a failure is, and whether to try again: a server that is overloaded or restarting will answer soon, one that cannot be
/// reached or forbids it will not.
pub(super) fn verdict(kind: Review, error: kube::Error) -> (Error, Option<Asked>) {
    let kind = kind.name();
    match error {
        kube::Error::Api(status) => {
            let asked = status
                .details
                .as_ref()
                .map(|details| details.retry_after_seconds)
                .filter(|seconds| *seconds > 0)
                .map(|seconds| Duration::from_secs(u64::from(seconds)));
            let again = asked.is_some() || matches!(status.code, 429 | 500 | 504);
            let message = status.message.clone();
            (Error::Refused { kind, code: status.code, message }, again.then_some(asked))
        }
        error => {
            let lost = is_lost(&error);
            (Error::Unreachable { kind, message: causes(&error) }, lost.then_some(None))
        }
    }
}

/// Whether a connection was there and went away. One that never was is not tried again.
fn is_lost(error: &(dyn StdError + 'static)) -> bool {
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

fn causes(error: &(dyn StdError + 'static)) -> String {
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

    fn refused(code: u16, seconds: u32) -> kube::Error {
        let status = serde_json::json!({ "code": code, "message": "m", "reason": "r", "status": "Failure",
            "details": { "retryAfterSeconds": seconds } });
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    /// AUTHN-11, AUTHN-12, AUTHZ-07.
    #[test]
    fn a_server_that_may_answer_soon_is_asked_again_and_one_that_forbids_is_not() {
        let again = |error| verdict(Review::Token, error).1;
        for code in [429, 500, 504] {
            assert_eq!(again(refused(code, 0)), Some(None), "{code}");
        }
        assert_eq!(again(refused(503, 3)), Some(Some(Duration::from_secs(3))));
        for code in [401, 403, 404, 503] {
            assert_eq!(again(refused(code, 0)), None, "{code}");
        }
        let io = |kind| kube::Error::Service(Box::new(std::io::Error::from(kind)));
        assert_eq!(again(io(std::io::ErrorKind::ConnectionReset)), Some(None));
        assert_eq!(again(io(std::io::ErrorKind::ConnectionRefused)), None);
    }

    #[test]
    fn there_are_five_tries_in_about_four_seconds() {
        let mut tries = Retry::default();
        let waits: Vec<Duration> = std::iter::from_fn(|| tries.next(None)).collect();
        let total: Duration = waits.iter().sum();
        assert_eq!(waits.len(), 4);
        assert!(total > Duration::from_secs(4) && total < Duration::from_secs(5), "{total:?}");
        assert!(Retry::default().next(Some(Duration::from_secs(9))) >= Some(Duration::from_secs(9)));
    }
}
