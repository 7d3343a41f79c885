//! One execution, from its locks to its stored end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio_util::task::TaskTracker;

use super::Inner;
use crate::kinds::{Failure, Kind, Limit, Outcome, Work};
use crate::ledger::{self, Ended, Execution, Json};

/// How long threads may take to end after they were told to.
const THREADS_END_WITHIN: Duration =
    if cfg!(test) { Duration::from_secs(1) } else { Duration::from_secs(20) };

/// Time between two tries to store an end: at first, and at most.
const STORE_AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// How an execution ended.
enum End {
    /// By itself.
    Done(Outcome),
    /// It was cancelled: nothing is stored.
    Cancelled,
}

impl Inner {
    /// Does a task and stores what it came to.
    pub(super) async fn execute(
        self: Arc<Self>,
        kind: &'static Kind,
        execution: Execution,
        params: Option<Json>,
    ) {
        let begin = Instant::now();
        let span = (kind.task, execution.id.clone(), execution.run);
        tracing::info!(task = %span.0, id = span.1, run = span.2, "begun");
        let end = self.do_it(kind, &execution, params).await;
        let (ended, failure) = match end {
            End::Cancelled => {
                tracing::info!(task = %span.0, id = span.1, run = span.2, "cancelled");
                return;
            }
            End::Done(Ok(result)) => (of_result(result), None),
            End::Done(Err(failure)) => {
                let result = failure.result.as_ref().and_then(|result| raw(result).ok());
                (Ended { result, error: Some(failure.why.clone()) }, Some(failure))
            }
        };
        let failed = ended.error.clone();
        self.metrics.ended(
            kind.task,
            failed.is_some(),
            failure.is_some_and(|one| one.panicked),
            begin.elapsed(),
        );
        match &failed {
            None => tracing::info!(task = %span.0, id = span.1, run = span.2, "completed"),
            Some(error) => tracing::warn!(task = %span.0, id = span.1, run = span.2, error, "failed"),
        }
        self.store(&execution, ended).await;
    }

    async fn do_it(
        self: &Arc<Self>,
        kind: &'static Kind,
        execution: &Execution,
        params: Option<Json>,
    ) -> End {
        let token = &execution.token;
        let held = tokio::select! {
            biased;
            () = token.cancelled() => return End::Cancelled,
            held = self.locks.take(kind) => held,
        };
        let threads = TaskTracker::new();
        let work =
            Work { node: self.node.clone(), execution: execution.clone(), params, threads: threads.clone() };
        let limit = match kind.limit {
            Limit::Within(limit) => Some(limit),
            Limit::Upload => Some(self.node.settings().snapshot_upload_timeout),
            Limit::Endless => None,
        };
        let doing = AssertUnwindSafe(async move { (kind.run)(work).await }).catch_unwind();
        let end = tokio::select! {
            biased;
            done = doing => End::Done(done.unwrap_or_else(|panic| Err(Failure::panic(panic.as_ref())))),
            () = token.cancelled() => End::Cancelled,
            () = after(limit) => End::Done(Err(too_long(limit))),
        };
        // What failed because it was told to end has not failed: it is done again.
        let end = match end {
            End::Done(Err(failure)) if token.is_cancelled() && !failure.panicked => End::Cancelled,
            end => end,
        };
        // What is left of its work must be over before anybody else may touch the same.
        token.cancel();
        threads.close();
        if tokio::time::timeout(THREADS_END_WITHIN, threads.wait()).await.is_err() {
            tracing::error!(task = %kind.task, id = execution.id, "its work does not end: livez says so");
            self.stuck.fetch_add(1, Ordering::Relaxed);
            let engine = self.clone();
            tokio::spawn(async move {
                threads.wait().await;
                engine.stuck.fetch_sub(1, Ordering::Relaxed);
                drop(held);
            });
        }
        end
    }

    /// Stores an end, however long that takes: until then the task runs, and a restart does it again.
    async fn store(&self, execution: &Execution, ended: Ended) {
        let mut wait = STORE_AGAIN.0;
        loop {
            match self.ledger.end(execution, ended.clone()).await {
                Ok(_) | Err(ledger::Error::Closed) => return,
                Err(error) => {
                    tracing::error!(id = execution.id, %error, "its end cannot be stored: trying again");
                    tokio::select! {
                        () = self.end.cancelled() => return,
                        () = tokio::time::sleep(wait) => wait = (wait * 2).min(STORE_AGAIN.1),
                    }
                }
            }
        }
    }
}

async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

fn too_long(limit: Option<Duration>) -> Failure {
    let seconds = limit.unwrap_or_default().as_secs();
    Failure::new(format_args!("deadline exceeded: it was not done within {seconds} seconds"))
}

fn raw(value: &serde_json::Value) -> serde_json::Result<Json> {
    serde_json::value::to_raw_value(value)
}

/// A result that cannot be written fails the task: its reader would wait for it in vain.
fn of_result(result: Option<serde_json::Value>) -> Ended {
    match result.filter(|result| !result.is_null()).as_ref().map(raw).transpose() {
        Ok(result) => Ended { result, error: None },
        Err(error) => Ended { result: None, error: Some(format!("its result cannot be stored: {error}")) },
    }
}
