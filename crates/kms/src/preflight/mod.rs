//! `outrigger kms-preflight`: checks plugins from inside a pod, and says on the pod what it has found. A failure is a finding:
//! the process ends well after it was posted, so that nobody has to guess from an exit code.

mod args;
mod post;

use std::time::Duration;

use api::kms::check::PluginCheck;
use tokio::time::Instant;

pub use self::args::{Args, Settings};
use crate::check;

/// How often a plugin that has not come up is asked.
const EVERY: Duration = Duration::from_secs(2);

/// How long it may take to come up. All plugins are asked side by side, so this is the time of all of them.
const UP_WITHIN: Duration = Duration::from_secs(30);

/// Why nothing was posted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no way to the API server.
    #[error(transparent)]
    Access(#[from] runtime::client::Error),
    /// What was found cannot be posted.
    #[error("posting the result on pod {pod}: {why}")]
    Post {
        /// The pod.
        pod: String,
        /// Why.
        why: String,
    },
}

/// Checks all sockets, the first one in full, and posts what was found.
pub async fn run(settings: Settings) -> Result<Vec<PluginCheck>, Error> {
    let checks = settings
        .sockets
        .iter()
        .enumerate()
        .map(|(place, socket)| patient(socket, settings.call_timeout, place == 0));
    let found = futures_util::future::join_all(checks).await;
    post::post(&settings, &found).await?;
    Ok(found)
}

/// Waits for a plugin to be well, and checks it. Plugins start beside us, and may take a while.
async fn patient(socket: &str, within: Duration, full: bool) -> PluginCheck {
    let deadline = Instant::now() + UP_WITHIN;
    loop {
        let status = check::one(socket, within, false).await;
        if status.passed {
            return if full { check::one(socket, within, true).await } else { status };
        }
        if let Some(failure) = status.failure() {
            eprintln!("{socket}: {} failed: {}", failure.step, failure.detail.as_deref().unwrap_or_default());
        }
        let next = Instant::now() + EVERY;
        if next > deadline {
            return status;
        }
        tokio::time::sleep_until(next).await;
    }
}
