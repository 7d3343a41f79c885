//! The executions that are under way in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::sidecar_wire::TaskState;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::moment::Moment;
use super::row::{Json, Task};

/// One execution of a task.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The task.
    pub id: String,
    /// When it was given: with the id it names this execution.
    pub submitted_at: Moment,
    /// Which attempt it is, from 1.
    pub run: u32,
    /// Cancelled when the task is deleted or the process ends.
    pub token: CancellationToken,
    /// How far it is.
    pub progress: Progress,
}

/// How far an execution is: shown as the result of a task that runs.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Option<Json>>>);

impl Progress {
    /// Says how far it is.
    pub fn set(&self, how_far: &impl Serialize) {
        if let Ok(json) = serde_json::value::to_raw_value(how_far) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(json);
        }
    }

    fn get(&self) -> Option<Json> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// All executions that are under way.
#[derive(Debug)]
pub(super) struct Live {
    executions: HashMap<String, Execution>,
    end: CancellationToken,
}

impl Live {
    /// None yet; all are cancelled with this token.
    pub(super) fn until(end: CancellationToken) -> Self {
        Self { executions: HashMap::new(), end }
    }

    /// The token of a new execution.
    pub(super) fn token(&self) -> CancellationToken {
        self.end.child_token()
    }

    pub(super) fn begin(&mut self, execution: Execution) {
        self.executions.insert(execution.id.clone(), execution);
    }

    /// Forgets an execution, unless the task has another one by now.
    pub(super) fn end(&mut self, id: &str, submitted_at: &Moment) {
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

    pub(super) fn with_progress(&self, mut task: Task) -> Task {
        if task.state == TaskState::Running {
            task.result = self.executions.get(&task.id).and_then(|execution| execution.progress.get());
        }
        task
    }
}
