//! Executions in progress in this process. The ledger thread tracks them so that commits, starts and cancellations happen in one
//! order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::sidecar_wire::TaskState;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::row::{RawJson, TaskRow};
use super::time::StoredTime;

/// A running execution of a task.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The task ID.
    pub id: String,
    /// The submission time. Together with the ID it identifies this execution.
    pub submitted_at: StoredTime,
    /// The attempt, from 1.
    pub run: u32,
    /// Cancelled when the task is deleted or the process shuts down.
    pub token: CancellationToken,
    /// Reported as the result while the task runs.
    pub progress: Progress,
}

/// The progress of an execution.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Option<RawJson>>>);

impl Progress {
    /// Replaces the progress.
    pub fn set(&self, progress: &impl Serialize) {
        if let Ok(json) = serde_json::value::to_raw_value(progress) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(json);
        }
    }

    fn get(&self) -> Option<RawJson> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// All executions in progress.
#[derive(Debug)]
pub(super) struct RunningExecutions {
    executions: HashMap<String, Execution>,
    shutdown: CancellationToken,
}

impl RunningExecutions {
    /// Starts empty; cancelling `shutdown` cancels all executions.
    pub(super) fn new(shutdown: CancellationToken) -> Self {
        Self { executions: HashMap::new(), shutdown }
    }

    /// Returns the token for a new execution.
    pub(super) fn new_token(&self) -> CancellationToken {
        self.shutdown.child_token()
    }

    pub(super) fn insert(&mut self, execution: Execution) {
        self.executions.insert(execution.id.clone(), execution);
    }

    /// Removes an execution, unless the task was submitted again since.
    pub(super) fn remove(&mut self, id: &str, submitted_at: &StoredTime) {
        if self.executions.get(id).is_some_and(|execution| execution.submitted_at == *submitted_at) {
            self.executions.remove(id);
        }
    }

    pub(super) fn cancel(&mut self, id: &str) {
        if let Some(execution) = self.executions.remove(id) {
            execution.token.cancel();
        }
    }

    pub(super) fn count(&self) -> usize {
        self.executions.len()
    }

    pub(super) fn with_progress(&self, mut task: TaskRow) -> TaskRow {
        if task.state == TaskState::Running {
            task.result = self.executions.get(&task.id).and_then(|execution| execution.progress.get());
        }
        task
    }
}
