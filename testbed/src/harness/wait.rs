//! Waiting for a condition, with a deadline and the last thing seen in the error. Nothing here sleeps and hopes.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{Error, Result};

/// Time between two looks: short, since most conditions come true within a second.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// What is looked at throughout a time is often large, like a log.
const BETWEEN_LOOKS_THROUGHOUT: Duration = Duration::from_secs(1);

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

/// Looks again and again for the whole of `time`, and fails as soon as a look does: for what must hold, not come true.
pub async fn throughout<E, F, Fut>(what: impl Display, time: Duration, mut look: F) -> Result<()>
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = std::result::Result<(), E>>,
{
    let begin = Instant::now();
    loop {
        if let Err(error) = look().await {
            return Err(Error::Broken {
                what: what.to_string(),
                after: begin.elapsed(),
                seen: error.to_string(),
            });
        }
        if begin.elapsed() >= time {
            return Ok(());
        }
        sleep(BETWEEN_LOOKS_THROUGHOUT.min(time)).await;
    }
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
    async fn what_holds_only_for_a_while_is_found() {
        let mut looks = 0;
        let mut look = |good: u32| {
            looks += 1;
            let seen = looks;
            async move { if seen <= good { Ok(()) } else { Err(format!("look {seen} was bad")) } }
        };
        let error = throughout("calm", Duration::from_millis(300), || look(1)).await.unwrap_err().to_string();
        assert!(
            error.starts_with("calm did not hold: after ") && error.ends_with("look 2 was bad"),
            "{error}"
        );
        throughout("calm", Duration::from_millis(300), || look(1_000)).await.unwrap();
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
