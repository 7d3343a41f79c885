//! The tasks of a process. Each must live until it is told to end: one that ends before takes the process with it, since
//! a process that lives on without one of its parts looks well and does nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// The order in which tasks are told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// What brings new work: ends first.
    Intake,
    /// What does work: what has begun may end.
    Work,
    /// What others wait for us to let go: the lease.
    Release,
    /// What tells how we are doing: until the last moment.
    Watchman,
}

impl Phase {
    const ORDER: [Self; 4] = [Self::Intake, Self::Work, Self::Release, Self::Watchman];

    /// How long its tasks may take to end. Together less than ten seconds, after which most clusters kill.
    fn budget(self) -> Duration {
        Duration::from_millis(match self {
            Self::Intake => 500,
            Self::Work => 6_000,
            Self::Release => 2_000,
            Self::Watchman => 500,
        })
    }
}

/// Why a process ends in error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A task ended that must live.
    #[error("{name} ended by itself ({how}); the process ends with it, to be started again")]
    Ended {
        /// The task.
        name: String,
        /// How it ended.
        how: String,
    },
    /// Signals cannot be listened for.
    #[error("listening for signals: {0}")]
    Signals(std::io::Error),
}

/// The tasks of a process.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<()>,
    names: BTreeMap<Id, (Phase, String)>,
    stops: BTreeMap<Phase, CancellationToken>,
}

impl Tasks {
    /// No tasks yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when the tasks of a phase are to end.
    pub fn stop(&mut self, phase: Phase) -> CancellationToken {
        self.stops.entry(phase).or_default().clone()
    }

    /// Starts a task that ends when told to by its phase's [`stop`](Self::stop).
    pub fn spawn(
        &mut self,
        phase: Phase,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = self.set.spawn(task).id();
        self.names.insert(id, (phase, name.into()));
    }

    /// Starts a task that needs no word before it ends: it is dropped.
    pub fn spawn_until_stopped(
        &mut self,
        phase: Phase,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let stop = self.stop(phase);
        self.spawn(phase, name, async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Lives until SIGTERM or SIGINT, or until a task ends by itself; then ends all, phase by phase.
    pub async fn run_until_signal(self) -> Result<(), Error> {
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
        self.run_until(async move {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("SIGTERM: ending"),
                _ = interrupt.recv() => tracing::info!("SIGINT: ending"),
            }
        })
        .await
    }

    /// The same with another reason to end.
    pub async fn run_until(mut self, end: impl Future<Output = ()>) -> Result<(), Error> {
        let ended = tokio::select! {
            () = end => None,
            Some(ended) = self.set.join_next_with_id() => Some(self.name_of(&ended)),
        };
        self.end_all().await;
        match ended {
            None => Ok(()),
            Some((name, how)) => Err(Error::Ended { name, how }),
        }
    }

    fn name_of(&mut self, ended: &Result<(Id, ()), JoinError>) -> (String, String) {
        let (id, how) = match ended {
            Ok((id, ())) => (*id, "it returned".to_owned()),
            Err(error) => (error.id(), error.to_string()),
        };
        let name = self.names.remove(&id).map_or_else(|| "a task".to_owned(), |(_, name)| name);
        (name, how)
    }

    /// Tells each phase in turn to end, and gives it its time; what is left of it then is cut off with the process.
    async fn end_all(&mut self) {
        for phase in Phase::ORDER {
            self.stop(phase).cancel();
            let waited = tokio::time::timeout(phase.budget(), async {
                while self.names.values().any(|(of, _)| *of == phase) {
                    match self.set.join_next_with_id().await {
                        Some(ended) => drop(self.name_of(&ended)),
                        None => break,
                    }
                }
            })
            .await;
            if waited.is_err() {
                let late: Vec<&str> = self
                    .names
                    .values()
                    .filter(|(of, _)| *of == phase)
                    .map(|(_, name)| name.as_str())
                    .collect();
                tracing::warn!(?phase, ?late, "cut off: did not end in its time");
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
    async fn phases_end_in_their_order() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Tasks::new();
        for phase in [Phase::Watchman, Phase::Work, Phase::Release, Phase::Intake] {
            let (stop, order) = (tasks.stop(phase), order.clone());
            tasks.spawn(phase, format!("{phase:?}"), async move {
                stop.cancelled().await;
                order.lock().unwrap().push(phase);
            });
        }
        tasks.run_until(async {}).await.unwrap();
        assert_eq!(*order.lock().unwrap(), Phase::ORDER);
    }

    #[tokio::test]
    async fn a_task_that_ends_by_itself_ends_the_process_and_is_named() {
        let mut tasks = Tasks::new();
        tasks.spawn_until_stopped(Phase::Work, "the rest", std::future::pending());
        tasks.spawn_until_stopped(Phase::Intake, "watch nodes", async {});
        let error = tasks.run_until(std::future::pending()).await.unwrap_err().to_string();
        assert!(error.starts_with("watch nodes ended by itself (it returned)"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_cut_off_in_less_than_ten_seconds() {
        let mut tasks = Tasks::new();
        tasks.spawn(Phase::Work, "deaf", std::future::pending());
        tasks.spawn(Phase::Release, "deaf too", std::future::pending());
        let begin = tokio::time::Instant::now();
        tasks.run_until(async {}).await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    }
}
