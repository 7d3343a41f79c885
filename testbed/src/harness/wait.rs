//! Waits for a condition with a deadline; the error contains the last failed check.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{Error, Result};

/// Poll interval: short, because most conditions become true within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Poll interval of [`throughout`]: longer, because it often reads large logs.
const STABILITY_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Polls `check` until it returns a value; fails with its last error after `limit`. A hanging check is cancelled at
/// the deadline.
pub async fn until<T, E, F, Fut>(what: impl Display, limit: Duration, mut check: F) -> Result<T>
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = std::result::Result<T, E>>,
{
    let deadline = Instant::now() + limit;
    let mut last = String::from("first check did not complete");
    while let Ok(result) = timeout_at(deadline, check()).await {
        match result {
            Ok(value) => return Ok(value),
            Err(error) => last = error.to_string(),
        }
        if Instant::now() + POLL_INTERVAL >= deadline {
            break;
        }
        sleep(POLL_INTERVAL).await;
    }
    Err(Error::Deadline { what: what.to_string(), limit, last })
}

/// Polls `check` for the whole of `time` and fails with its first error: for conditions that must stay true.
pub async fn throughout<E, F, Fut>(what: impl Display, time: Duration, mut check: F) -> Result<()>
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = std::result::Result<(), E>>,
{
    let begin = Instant::now();
    loop {
        if let Err(error) = check().await {
            return Err(Error::Violated {
                what: what.to_string(),
                after: begin.elapsed(),
                last: error.to_string(),
            });
        }
        if begin.elapsed() >= time {
            return Ok(());
        }
        sleep(STABILITY_POLL_INTERVAL.min(time)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn timeout_error_contains_last_check() {
        let mut checks = 0;
        let error = until("readiness", Duration::from_millis(200), || {
            checks += 1;
            let attempt = checks;
            async move { Err::<(), _>(format!("attempt {attempt}")) }
        })
        .await
        .unwrap_err()
        .to_string();
        assert!(error.starts_with("timed out after 200ms waiting for readiness: attempt "), "{error}");
        assert!(checks > 1, "only {checks} checks");
    }

    #[tokio::test]
    async fn throughout_fails_when_condition_breaks() {
        let mut checks = 0;
        let mut check = |good: u32| {
            checks += 1;
            let attempt = checks;
            async move { if attempt <= good { Ok(()) } else { Err(format!("check {attempt} failed")) } }
        };
        let error =
            throughout("stability", Duration::from_millis(300), || check(1)).await.unwrap_err().to_string();
        assert!(
            error.starts_with("stability no longer held after ") && error.ends_with("check 2 failed"),
            "{error}"
        );
        throughout("stability", Duration::from_millis(300), || check(1_000)).await.unwrap();
    }

    #[tokio::test]
    async fn hanging_check_is_cancelled() {
        let error = until("a response", Duration::from_millis(100), || async {
            std::future::pending::<()>().await;
            Ok::<(), String>(())
        })
        .await
        .unwrap_err();
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
    }
}
