//! Waiting for a condition, with a deadline and the last thing seen in the error. Nothing here sleeps and hopes.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{Error, Result};

/// Time between two looks: short, since most conditions come true within a second.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Looks again and again until `look` returns a value, and fails with its last error when `limit` has passed.
/// A single look that hangs is cut at the deadline too.
pub async fn until<T, E, F, Fut>(what: impl Display, limit: Duration, mut look: F) -> Result<T>
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = std::result::Result<T, E>>,
{
    let deadline = Instant::now() + limit;
    let mut last = String::from("the first look did not end");
    while let Ok(seen) = timeout_at(deadline, look()).await {
        match seen {
            Ok(value) => return Ok(value),
            Err(error) => last = error.to_string(),
        }
        if Instant::now() + BETWEEN_LOOKS >= deadline {
            break;
        }
        sleep(BETWEEN_LOOKS).await;
    }
    Err(Error::Deadline { what: what.to_string(), limit, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_thing_seen_is_in_the_error() {
        let mut looks = 0;
        let error = until("the moon", Duration::from_millis(200), || {
            looks += 1;
            let seen = looks;
            async move { Err::<(), _>(format!("cloud {seen}")) }
        })
        .await
        .unwrap_err()
        .to_string();
        assert!(error.starts_with("the moon did not happen within 200ms: cloud "), "{error}");
        assert!(looks > 1, "looked only {looks} times");
    }

    #[tokio::test]
    async fn a_look_that_hangs_is_cut() {
        let error = until("an answer", Duration::from_millis(100), || async {
            std::future::pending::<()>().await;
            Ok::<(), String>(())
        })
        .await
        .unwrap_err();
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
    }
}
