//! Background tasks with an ordered shutdown. A task that exits early shuts the process down: without one of its tasks, a process
//! would look healthy and do nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::shutdown::ShutdownSignals;

/// The shutdown phases, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Sources of new work, such as watches and listeners.
    Intake,
    /// Reconcilers and workers, which finish what they have started.
    Work,
    /// The Lease, which standby processes are waiting for.
    Release,
    /// The admin server and other background tasks, which run until the end.
    Background,
}

impl Phase {
    const ORDER: [Self; 4] = [Self::Intake, Self::Work, Self::Release, Self::Background];

    /// How long the tasks of a phase may take to stop. The sum stays below ten seconds, a common termination grace period.
    fn timeout(self) -> Duration {
        Duration::from_millis(match self {
            Self::Intake => 500,
            Self::Work => 6_000,
            Self::Release => 2_000,
            Self::Background => 500,
        })
    }
}

/// Errors that shut the process down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A task exited before it was stopped.
    #[error("task {name:?} exited unexpectedly ({how}); shutting down")]
    Exited {
        /// The task.
        name: String,
        /// How it exited.
        how: String,
    },
    /// Signal handlers cannot be registered.
    #[error("failed to register signal handlers: {0}")]
    Signals(std::io::Error),
}

/// The background tasks of a process.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<()>,
    names: BTreeMap<Id, (Phase, String)>,
    stops: BTreeMap<Phase, CancellationToken>,
}

impl Tasks {
    /// Creates an empty set of tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the token that is cancelled when the tasks of `phase` must stop.
    pub fn stop_token(&mut self, phase: Phase) -> CancellationToken {
        self.stops.entry(phase).or_default().clone()
    }

    /// Spawns a task that returns once its phase's [`stop_token`](Self::stop_token) token is cancelled.
    pub fn spawn(
        &mut self,
        phase: Phase,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = self.set.spawn(task).id();
        self.names.insert(id, (phase, name.into()));
    }

    /// Spawns a task that is dropped when its phase stops.
    pub fn spawn_until_stopped(
        &mut self,
        phase: Phase,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let stop = self.stop_token(phase);
        self.spawn(phase, name, async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Runs until SIGTERM or SIGINT, or until a task exits, then stops all tasks phase by phase.
    pub async fn run_until_signal(self) -> Result<(), Error> {
        let mut signals = ShutdownSignals::register().map_err(Error::Signals)?;
        self.run_until(async move { signals.recv().await }).await
    }

    /// Runs until `shutdown` completes or a task exits, then stops all tasks phase by phase.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let exited = tokio::select! {
            () = shutdown => None,
            Some(joined) = self.set.join_next_with_id() => Some(self.remove(&joined)),
        };
        self.stop_all().await;
        match exited {
            None => Ok(()),
            Some((name, how)) => Err(Error::Exited { name, how }),
        }
    }

    /// Removes a finished task. Returns its name and how it finished.
    fn remove(&mut self, joined: &Result<(Id, ()), JoinError>) -> (String, String) {
        let (id, how) = match joined {
            Ok((id, ())) => (*id, "returned".to_owned()),
            Err(error) => (error.id(), error.to_string()),
        };
        let name = self.names.remove(&id).map_or_else(|| "unknown".to_owned(), |(_, name)| name);
        (name, how)
    }

    /// Stops each phase in order, waiting up to its timeout, and aborts the remaining tasks at the end.
    async fn stop_all(&mut self) {
        for phase in Phase::ORDER {
            self.stop_token(phase).cancel();
            let stopped = tokio::time::timeout(phase.timeout(), async {
                while self.names.values().any(|(of, _)| *of == phase) {
                    match self.set.join_next_with_id().await {
                        Some(joined) => drop(self.remove(&joined)),
                        None => break,
                    }
                }
            })
            .await;
            if stopped.is_err() {
                let running: Vec<&str> = self
                    .names
                    .values()
                    .filter(|(of, _)| *of == phase)
                    .map(|(_, name)| name.as_str())
                    .collect();
                tracing::warn!(?phase, tasks = ?running, "shutdown timeout exceeded; aborting tasks");
            }
        }
        self.set.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn phases_stop_in_order() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Tasks::new();
        for phase in [Phase::Background, Phase::Work, Phase::Release, Phase::Intake] {
            let (stop, order) = (tasks.stop_token(phase), order.clone());
            tasks.spawn(phase, format!("{phase:?}"), async move {
                stop.cancelled().await;
                order.lock().unwrap().push(phase);
            });
        }
        tasks.run_until(async {}).await.unwrap();
        assert_eq!(*order.lock().unwrap(), Phase::ORDER);
    }

    #[tokio::test]
    async fn exited_task_shuts_down_the_process_and_is_named() {
        let mut tasks = Tasks::new();
        tasks.spawn_until_stopped(Phase::Work, "other", std::future::pending());
        tasks.spawn_until_stopped(Phase::Intake, "watch nodes", async {});
        let error = tasks.run_until(std::future::pending()).await.unwrap_err().to_string();
        assert!(error.starts_with("task \"watch nodes\" exited unexpectedly (returned)"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_tasks_are_aborted_within_ten_seconds() {
        let mut tasks = Tasks::new();
        tasks.spawn(Phase::Work, "hanging", std::future::pending());
        tasks.spawn(Phase::Release, "hanging too", std::future::pending());
        let start = tokio::time::Instant::now();
        tasks.run_until(async {}).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}
