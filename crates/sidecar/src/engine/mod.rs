//! The task engine: accepts tasks, executes them and stores their results.

mod dry_run;
mod execute;
mod locks;
pub mod recovery;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::sidecar_wire::{DryRunResult, TaskType};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::dry_run::DryRunError;
use self::dry_run::DryRuns;
use self::locks::TaskLocks;
use self::recovery::RecoveryAction;
use crate::kinds::{self, Kind, KindLookup};
use crate::ledger::{self, Execution, Ledger, RawJson, StoredTime, SubmitOutcome, TaskRow};
use crate::metrics::Metrics;
use crate::node::Node;

/// Timeout of a submission, including the commit.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(8);

/// Timeout of the ledger check of the liveness probe.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of pruning.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3600);

/// Why a submission was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The request is invalid: a retry cannot succeed.
    #[error("{0}")]
    Invalid(String),
    /// The task cannot be accepted now: retry later.
    #[error("{0}")]
    Unavailable(String),
}

impl From<ledger::Error> for SubmitError {
    fn from(error: ledger::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// The task engine.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    node: Arc<Node>,
    locks: TaskLocks,
    dry_runs: DryRuns,
    metrics: Metrics,
    /// Cancelled at shutdown.
    shutdown: CancellationToken,
    /// Tracks submissions and executions in progress.
    in_progress: TaskTracker,
    /// Number of executions whose threads do not end.
    stuck: AtomicUsize,
    max_tasks: u32,
}

impl Engine {
    /// Creates an idle engine.
    #[must_use]
    pub fn new(node: Arc<Node>, shutdown: CancellationToken) -> Self {
        let settings = node.settings();
        let (max_tasks, slots) = (settings.max_tasks, settings.max_working_tasks);
        Self(Arc::new(Inner {
            ledger: node.ledger().clone(),
            node: node.clone(),
            locks: TaskLocks::new(node.clone(), slots),
            dry_runs: DryRuns::default(),
            metrics: node.metrics().clone(),
            shutdown,
            in_progress: TaskTracker::new(),
            stuck: AtomicUsize::new(0),
            max_tasks,
        }))
    }

    /// Submits a task and returns its ID once it is durable. The ID identifies the task: a running or completed task is not started
    /// again; a failed one is.
    pub async fn submit(
        &self,
        id: Option<&str>,
        task_type: &str,
        params: Option<RawJson>,
        caller: Option<String>,
    ) -> Result<String, SubmitError> {
        let kind = kinds::find_supported(task_type).map_err(SubmitError::Invalid)?;
        let id = match id {
            None => uuid::Uuid::new_v4().hyphenated().to_string(),
            Some(id) => ledger::canonical_id(id)
                .ok_or_else(|| SubmitError::Invalid(format!("task ID must be a valid UUID: {id:?}")))?,
        };
        // Spawned: a client that disconnects must not cancel a task that has started.
        let (engine, task_id) = (self.0.clone(), id.clone());
        let submitted =
            self.0.in_progress.spawn(async move { engine.submit(kind, task_id, params, caller).await });
        match tokio::time::timeout(SUBMIT_TIMEOUT, submitted).await {
            Ok(Ok(result)) => result.map(|()| id),
            Ok(Err(error)) => Err(SubmitError::Unavailable(error.to_string())),
            Err(_) => Err(ledger::Error::Timeout.into()),
        }
    }

    /// Checks what a task would check, without executing it: nothing is written or stored.
    pub async fn dry_run(
        &self,
        task_type: &str,
        params: Option<RawJson>,
    ) -> Result<DryRunResult, DryRunError> {
        let kind = kinds::find_supported(task_type).map_err(DryRunError::Invalid)?;
        self.0.dry_runs.run(&self.0.node, kind, params).await
    }

    /// Recovers the tasks of a previous process, holds first. The API must not accept connections before this returns.
    pub async fn recover(&self) -> Result<(), ledger::Error> {
        let ledger = &self.0.ledger;
        for hold in recovery::stranded_holds(&ledger.list_unfinished().await?) {
            if let Some(KindLookup::Supported(kind)) = kinds::find(&hold.task_type) {
                let execution = ledger.resume(hold).await?;
                self.0.clone().execute(kind, execution).await;
            }
        }
        let stranded = ledger.list_unfinished().await?;
        let newest_hold = ledger.last_submitted(TaskType::MarkNotReady).await;
        let publishes_snapshots = self.0.node.settings().publish_snapshots;
        for action in recovery::plan_recovery(stranded, &newest_hold, publishes_snapshots) {
            match action {
                RecoveryAction::Restart(task, kind) => {
                    let execution = ledger.resume(task).await?;
                    self.0.start(kind, execution);
                }
                RecoveryAction::Fail(task, error) => {
                    tracing::warn!(task = task.task_type, id = task.id, error, "stranded task failed");
                    let execution = ledger.resume(task).await?;
                    ledger.finish(&execution, None, Some(error)).await?;
                }
                RecoveryAction::Forget(task) => {
                    tracing::warn!(
                        task = task.task_type,
                        id = task.id,
                        "deleted an unfinished task that this sidecar has not accepted; submit it again"
                    );
                    ledger.delete(&task.id).await?;
                }
            }
        }
        Ok(())
    }

    /// Returns a task.
    pub async fn get(&self, id: &str) -> Result<Option<TaskRow>, ledger::Error> {
        match ledger::canonical_id(id) {
            Some(id) => self.0.ledger.get(&id).await,
            None => Ok(None),
        }
    }

    /// Returns the newest 100 tasks, newest first.
    pub async fn list_newest(&self) -> Result<Vec<TaskRow>, ledger::Error> {
        self.0.ledger.list_newest().await
    }

    /// Deletes and cancels a task; returns false if it does not exist.
    pub async fn delete(&self, id: &str) -> Result<bool, ledger::Error> {
        match ledger::canonical_id(id) {
            Some(id) => self.0.ledger.delete(&id).await,
            None => Ok(false),
        }
    }

    /// Returns the node.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.0.node
    }

    /// Returns the failed liveness check, if any. Only a restart helps then.
    pub async fn liveness_failure(&self) -> Option<String> {
        if self.0.stuck.load(Ordering::Relaxed) > 0 {
            return Some("a task does not stop".into());
        }
        self.0.ledger.ping(PING_TIMEOUT).await.err().map(|error| error.to_string())
    }

    /// Deletes finished tasks after their retention time, forever.
    pub async fn run_pruning(&self) {
        let retention = self.0.node.settings().keep_tasks_for;
        loop {
            let now = k8s_openapi::jiff::Timestamp::now();
            if let Ok(before) = now.checked_sub(retention) {
                let before = StoredTime::from(before);
                // The newest hold stays: recovery compares releases with it.
                while matches!(self.0.ledger.prune(before.clone(), TaskType::MarkNotReady).await, Ok(1..)) {
                    tokio::task::yield_now().await;
                }
            }
            tokio::time::sleep(PRUNE_INTERVAL).await;
        }
    }

    /// Cancels all tasks and waits for them; returns false if they did not end in time.
    pub async fn shutdown(&self, timeout: Duration) -> bool {
        self.0.shutdown.cancel();
        self.0.in_progress.close();
        tokio::time::timeout(timeout, self.0.in_progress.wait()).await.is_ok()
    }
}

impl Inner {
    async fn submit(
        self: Arc<Self>,
        kind: &'static Kind,
        id: String,
        params: Option<RawJson>,
        caller: Option<String>,
    ) -> Result<(), SubmitError> {
        match self.ledger.submit(id, kind.task_type, params, caller, self.max_tasks).await? {
            SubmitOutcome::Started(execution) => {
                self.metrics.task_started(kind.task_type);
                self.start(kind, execution);
                Ok(())
            }
            SubmitOutcome::AlreadyExists => Ok(()),
            SubmitOutcome::TooManyRunning => Err(SubmitError::Unavailable(format!(
                "{} tasks are in progress; no more are accepted (--max-tasks)",
                self.max_tasks
            ))),
        }
    }

    fn start(self: &Arc<Self>, kind: &'static Kind, execution: Execution) {
        self.in_progress.spawn(self.clone().execute(kind, execution));
    }
}

#[cfg(test)]
mod tests;
