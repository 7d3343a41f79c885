//! `outrigger kms-preflight`: checks plugins inside a pod and records the result in the pod's conditions. A failed check is a result:
//! the process exits with 0 once it is recorded, so that the exit code only says whether there is a result.

mod args;
mod pod_conditions;

use std::time::Duration;

use api::kms::check::PluginCheck;
use tokio::time::Instant;

pub use self::args::{Args, Settings};
use crate::check;

/// Delay between two checks of a plugin that is not healthy yet.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How long plugins may take to become healthy. They are polled concurrently, so this bounds all of them together.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Why no result was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No API client could be created.
    #[error(transparent)]
    Access(#[from] runtime::client::Error),
    /// The pod's conditions could not be updated.
    #[error("updating conditions of pod {pod}: {why}")]
    Post {
        /// Namespace and name of the pod.
        pod: String,
        /// Error of the last attempt.
        why: String,
    },
}

/// Checks all sockets, the first one with Encrypt and Decrypt, and records the result.
pub async fn run(settings: Settings) -> Result<Vec<PluginCheck>, Error> {
    let checks = settings
        .sockets
        .iter()
        .enumerate()
        .map(|(index, socket)| check_once_healthy(socket, settings.call_timeout, index == 0));
    let checks = futures_util::future::join_all(checks).await;
    pod_conditions::record(&settings, &checks).await?;
    Ok(checks)
}

/// Polls a plugin until it is healthy, then checks it. Plugins start at the same time as this process and may take a while.
async fn check_once_healthy(socket: &str, timeout: Duration, full: bool) -> PluginCheck {
    let deadline = Instant::now() + STARTUP_TIMEOUT;
    loop {
        let status = check::check_plugin(socket, timeout, false).await;
        if status.passed {
            return if full { check::check_plugin(socket, timeout, true).await } else { status };
        }
        if let Some(failure) = status.failure() {
            eprintln!("{socket}: {} failed: {}", failure.step, failure.detail.as_deref().unwrap_or_default());
        }
        let next = Instant::now() + POLL_INTERVAL;
        if next > deadline {
            return status;
        }
        tokio::time::sleep_until(next).await;
    }
}
