//! One execution, from its locks to its stored result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio_util::task::TaskTracker;

use super::Inner;
use crate::kinds::{Deadline, Kind, TaskContext, TaskError, TaskOutcome};
use crate::ledger::{self, Ended, Execution, RawJson};

/// How long threads may take to stop after cancellation.
const THREAD_STOP_TIMEOUT: Duration =
    if cfg!(test) { Duration::from_secs(1) } else { Duration::from_secs(20) };

/// Delay between attempts to store a result: initial and maximum.
const STORE_RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// How an execution ended.
enum ExecutionEnd {
    /// By itself.
    Finished(TaskOutcome),
    /// Cancelled: no result is stored.
    Cancelled,
}

impl Inner {
    /// Executes a task and stores its result.
    pub(super) async fn execute(
        self: Arc<Self>,
        kind: &'static Kind,
        execution: Execution,
        params: Option<RawJson>,
    ) {
        let start = Instant::now();
        let fields = (kind.task_type, execution.id.clone(), execution.run);
        tracing::info!(task = %fields.0, id = fields.1, run = fields.2, "task started");
        let end = self.run(kind, &execution, params).await;
        let (ended, task_error) = match end {
            ExecutionEnd::Cancelled => {
                tracing::info!(task = %fields.0, id = fields.1, run = fields.2, "task cancelled");
                return;
            }
            ExecutionEnd::Finished(Ok(result)) => (completed(result), None),
            ExecutionEnd::Finished(Err(error)) => {
                let result = error.result.as_ref().and_then(|result| to_raw_json(result).ok());
                (Ended { result, error: Some(error.message.clone()) }, Some(error))
            }
        };
        let error = ended.error.clone();
        self.metrics.task_finished(
            kind.task_type,
            error.is_some(),
            task_error.is_some_and(|error| error.panicked),
            start.elapsed(),
        );
        match &error {
            None => tracing::info!(task = %fields.0, id = fields.1, run = fields.2, "task completed"),
            Some(error) => {
                tracing::warn!(task = %fields.0, id = fields.1, run = fields.2, error, "task failed")
            }
        }
        self.store_result(&execution, ended).await;
    }

    async fn run(
        self: &Arc<Self>,
        kind: &'static Kind,
        execution: &Execution,
        params: Option<RawJson>,
    ) -> ExecutionEnd {
        let token = &execution.token;
        let guards = tokio::select! {
            biased;
            () = token.cancelled() => return ExecutionEnd::Cancelled,
            guards = self.locks.acquire(kind) => guards,
        };
        let threads = TaskTracker::new();
        let work = TaskContext {
            node: self.node.clone(),
            execution: execution.clone(),
            params,
            threads: threads.clone(),
        };
        let deadline = match kind.deadline {
            Deadline::After(duration) => Some(duration),
            Deadline::UploadTimeout => Some(self.node.settings().snapshot_upload_timeout),
            Deadline::Never => None,
        };
        let task = AssertUnwindSafe(async move { (kind.run)(work).await }).catch_unwind();
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
    async fn store_result(&self, execution: &Execution, ended: Ended) {
        let mut delay = STORE_RETRY_DELAY.0;
        loop {
            match self.ledger.finish(execution, ended.clone()).await {
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

/// A result that cannot be serialized fails the task: clients would wait for it forever.
fn completed(result: Option<serde_json::Value>) -> Ended {
    match result.filter(|result| !result.is_null()).as_ref().map(to_raw_json).transpose() {
        Ok(result) => Ended { result, error: None },
        Err(error) => Ended { result: None, error: Some(format!("serializing the result: {error}")) },
    }
}
