//! One execution, from its locks to its stored result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio_util::task::TaskTracker;

use super::Inner;
use crate::kinds::{Deadline, Kind, TaskContext, TaskError, TaskOutcome};
use crate::ledger::{self, Execution, RawJson};

/// How long threads may take to stop after cancellation.
const THREAD_STOP_TIMEOUT: Duration =
    if cfg!(test) { Duration::from_secs(1) } else { Duration::from_secs(20) };

/// Delay between attempts to store a result: initial and maximum.
const STORE_RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// How an execution ended.
enum ExecutionEnd {
    /// It completed, failed, panicked or exceeded its deadline.
    Finished(TaskOutcome),
    /// Cancelled: no result is stored.
    Cancelled,
}

impl Inner {
    /// Executes a task and stores its result.
    pub(super) async fn execute(self: Arc<Self>, kind: &'static Kind, execution: Execution) {
        let start = Instant::now();
        let (task, id, run) = (kind.task_type, &execution.id, execution.run);
        tracing::info!(%task, id, run, "task started");
        let outcome = match self.run(kind, &execution).await {
            ExecutionEnd::Finished(outcome) => outcome.and_then(serialize_result),
            ExecutionEnd::Cancelled => {
                tracing::info!(%task, id, run, "task cancelled");
                return;
            }
        };
        let panicked = outcome.as_ref().is_err_and(|error| error.panicked);
        self.metrics.task_finished(task, outcome.is_err(), panicked, start.elapsed());
        let (result, error) = match outcome {
            Ok(result) => {
                tracing::info!(%task, id, run, "task completed");
                (result, None)
            }
            Err(TaskError { message, result, .. }) => {
                tracing::warn!(%task, id, run, error = message, "task failed");
                (result.as_ref().and_then(|result| to_raw_json(result).ok()), Some(message))
            }
        };
        self.store_result(&execution, result, error).await;
    }

    async fn run(self: &Arc<Self>, kind: &'static Kind, execution: &Execution) -> ExecutionEnd {
        let token = &execution.token;
        let guards = tokio::select! {
            biased;
            () = token.cancelled() => return ExecutionEnd::Cancelled,
            guards = self.locks.acquire(kind) => guards,
        };
        let threads = TaskTracker::new();
        let ctx =
            TaskContext { node: self.node.clone(), execution: execution.clone(), threads: threads.clone() };
        let deadline = match kind.deadline {
            Deadline::After(duration) => Some(duration),
            Deadline::UploadTimeout => Some(self.node.settings().snapshot_upload_timeout),
            Deadline::Never => None,
        };
        let task = AssertUnwindSafe(async move { (kind.run)(ctx).await }).catch_unwind();
        let end = tokio::select! {
            biased;
            outcome = task => ExecutionEnd::Finished(outcome.unwrap_or_else(|panic| Err(TaskError::from_panic(panic.as_ref())))),
            () = token.cancelled() => ExecutionEnd::Cancelled,
            () = sleep_until_deadline(deadline) => ExecutionEnd::Finished(Err(deadline_exceeded(deadline))),
        };
        // An error after cancellation is not a failure of the task: the next start runs it again.
        let end = match end {
            ExecutionEnd::Finished(Err(error)) if token.is_cancelled() && !error.panicked => {
                ExecutionEnd::Cancelled
            }
            end => end,
        };
        // Remaining threads must end before another task may use the same resources.
        token.cancel();
        threads.close();
        if tokio::time::timeout(THREAD_STOP_TIMEOUT, threads.wait()).await.is_err() {
            tracing::error!(task = %kind.task_type, id = execution.id, "task threads did not stop; reporting not live");
            self.stuck.fetch_add(1, Ordering::Relaxed);
            let engine = self.clone();
            tokio::spawn(async move {
                threads.wait().await;
                engine.stuck.fetch_sub(1, Ordering::Relaxed);
                drop(guards);
            });
        }
        end
    }

    /// Stores the result, retrying forever: until then the task is running, and a restart runs it again.
    async fn store_result(&self, execution: &Execution, result: Option<RawJson>, error: Option<String>) {
        let mut delay = STORE_RETRY_DELAY.0;
        loop {
            match self.ledger.finish(execution, result.clone(), error.clone()).await {
                Ok(_) | Err(ledger::Error::Closed) => return,
                Err(error) => {
                    tracing::error!(id = execution.id, %error, "failed to store task result; retrying");
                    tokio::select! {
                        () = self.shutdown.cancelled() => return,
                        () = tokio::time::sleep(delay) => delay = (delay * 2).min(STORE_RETRY_DELAY.1),
                    }
                }
            }
        }
    }
}

async fn sleep_until_deadline(deadline: Option<Duration>) {
    match deadline {
        Some(deadline) => tokio::time::sleep(deadline).await,
        None => std::future::pending().await,
    }
}

fn deadline_exceeded(deadline: Option<Duration>) -> TaskError {
    let seconds = deadline.unwrap_or_default().as_secs();
    TaskError::new(format_args!("deadline exceeded: the task did not finish within {seconds} seconds"))
}

fn to_raw_json(value: &serde_json::Value) -> serde_json::Result<RawJson> {
    serde_json::value::to_raw_value(value)
}

/// Serializes a result; null is no result. A result that cannot be serialized fails the task: clients would wait for it forever.
fn serialize_result(result: Option<serde_json::Value>) -> Result<Option<RawJson>, TaskError> {
    let result = result.filter(|result| !result.is_null());
    let serialized = result.as_ref().map(to_raw_json).transpose();
    serialized.map_err(|error| TaskError::new(format_args!("serializing the result: {error}")))
}
