//! Executions in progress in this process. The ledger thread tracks them, so that commits, starts and cancellations happen in one
//! order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use api::sidecar_wire::TaskState;
use runtime::sync::lock;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::accepted::{AcceptedTasks, RecordName};
use super::row::{RawJson, TaskRow};
use super::time::StoredTime;

/// A running execution of a task. Created from the [`TaskRow`] that the ledger stored for it.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The task ID.
    pub id: String,
    /// The submission time. Together with the ID it identifies this execution.
    pub submitted_at: StoredTime,
    /// The attempt, from 1.
    pub run: u32,
    /// The parameters. Shared, because a context is cloned for each thread.
    pub params: Option<Arc<RawValue>>,
    /// Cancelled when the task is deleted or the process shuts down.
    pub token: CancellationToken,
    /// Reported as the result while the task runs.
    pub progress: Progress,
    /// Its record among the accepted tasks.
    record: RecordName,
}

/// A task that is running according to the ledger.
#[derive(Clone, Debug)]
pub struct UnfinishedTask {
    /// The task.
    pub row: TaskRow,
    /// Whether it is known that this sidecar has accepted it. Always true without a private directory.
    pub is_accepted: bool,
}

impl Execution {
    /// Creates the execution of a stored task.
    pub(super) fn new(row: TaskRow, token: CancellationToken) -> Self {
        let record = RecordName::of(&row);
        Self {
            id: row.id,
            submitted_at: row.submitted_at,
            run: row.run,
            params: row.params.map(Arc::from),
            token,
            progress: Progress::default(),
            record,
        }
    }
}

/// The progress of an execution.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Option<RawJson>>>);

impl Progress {
    /// Replaces the progress.
    pub fn set(&self, progress: &impl Serialize) {
        if let Ok(json) = serde_json::value::to_raw_value(progress) {
            *lock(&self.0) = Some(json);
        }
    }

    fn get(&self) -> Option<RawJson> {
        lock(&self.0).clone()
    }
}

/// All executions in progress, by task ID. Each is recorded as accepted until it ends.
#[derive(Debug)]
pub(super) struct RunningExecutions {
    handles: HashMap<String, Handle>,
    accepted: AcceptedTasks,
    shutdown: CancellationToken,
}

/// What the ledger needs of an execution: how to identify, cancel and report it.
#[derive(Debug)]
struct Handle {
    submitted_at: StoredTime,
    token: CancellationToken,
    progress: Progress,
    record: RecordName,
}

impl RunningExecutions {
    /// Starts empty; cancelling `shutdown` cancels all executions.
    pub(super) fn new(accepted: AcceptedTasks, shutdown: CancellationToken) -> Self {
        Self { handles: HashMap::new(), accepted, shutdown }
    }

    /// Returns the token for a new execution.
    pub(super) fn new_token(&self) -> CancellationToken {
        self.shutdown.child_token()
    }

    pub(super) fn insert(&mut self, execution: &Execution) {
        self.accepted.add(&execution.record);
        let handle = Handle {
            submitted_at: execution.submitted_at.clone(),
            token: execution.token.clone(),
            progress: execution.progress.clone(),
            record: execution.record.clone(),
        };
        self.handles.insert(execution.id.clone(), handle);
    }

    /// Removes an execution, unless the task was submitted again since.
    pub(super) fn remove(&mut self, id: &str, submitted_at: &StoredTime) {
        let is_same = self.handles.get(id).is_some_and(|handle| handle.submitted_at == *submitted_at);
        if is_same && let Some(handle) = self.handles.remove(id) {
            self.accepted.remove(&handle.record);
        }
    }

    pub(super) fn cancel(&mut self, id: &str) {
        if let Some(handle) = self.handles.remove(id) {
            handle.token.cancel();
            self.accepted.remove(&handle.record);
        }
    }

    /// Adds to the row of an unfinished task whether it was accepted.
    pub(super) fn with_acceptance(&self, row: TaskRow) -> UnfinishedTask {
        let is_accepted = self.accepted.contains(&RecordName::of(&row));
        UnfinishedTask { row, is_accepted }
    }

    pub(super) fn count(&self) -> usize {
        self.handles.len()
    }

    /// Adds the progress to the row of a running task.
    pub(super) fn with_progress(&self, mut row: TaskRow) -> TaskRow {
        if row.state == TaskState::Running {
            row.result = self.handles.get(&row.id).and_then(|handle| handle.progress.get());
        }
        row
    }
}
