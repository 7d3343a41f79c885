//! The context a task runs in, and its outcome.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::JoinError;
use tokio_util::task::TaskTracker;

use crate::ledger::Execution;
use crate::node::Node;

/// The result of a task, or the error it failed with.
pub type TaskOutcome = Result<Option<Value>, TaskError>;

/// Why a task failed. Every client that can read tasks sees the message, and the operator copies it into the node's status: it
/// must not contain secrets.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct TaskError {
    /// One line.
    pub message: String,
    /// A result to store in spite of the failure.
    pub result: Option<Value>,
    /// Whether the task panicked.
    pub panicked: bool,
}

impl TaskError {
    /// An ordinary failure.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), result: None, panicked: false }
    }

    /// A failure caused by a panic.
    pub fn from_panic(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let message = format!("task handler panicked: {}", text.as_deref().unwrap_or("no message"));
        Self { message, result: None, panicked: true }
    }
}

/// A thread that ended without a result.
impl From<JoinError> for TaskError {
    fn from(error: JoinError) -> Self {
        match error.try_into_panic() {
            Ok(panic) => Self::from_panic(panic.as_ref()),
            Err(error) => Self::new(error),
        }
    }
}

/// Deserializes parameters. Absent ones are an empty object.
pub(super) fn parse_params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, TaskError> {
    let text = params.map_or("{}", |params| params.get());
    serde_json::from_str(text).map_err(|error| TaskError::new(format_args!("parsing params: {error}")))
}

/// The context of one execution.
#[derive(Clone, Debug)]
pub struct TaskContext {
    /// The node.
    pub node: Arc<Node>,
    /// This execution.
    pub execution: Execution,
    /// Blocking threads of the task. The engine waits for them, even after cancellation.
    pub threads: TaskTracker,
}

impl TaskContext {
    /// Deserializes the parameters. Absent parameters are an empty object.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, TaskError> {
        parse_params(self.execution.params.as_deref())
    }

    /// Runs blocking work on its own thread. The work must check the cancellation token: nothing else stops it.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, TaskError> + Send + 'static,
    ) -> Result<T, TaskError> {
        self.threads.spawn_blocking(work).await.unwrap_or_else(|error| Err(error.into()))
    }

    /// Fails if the task was cancelled. Blocking work calls it between chunks.
    pub fn check_cancelled(&self) -> Result<(), TaskError> {
        if self.execution.token.is_cancelled() { Err(TaskError::new("cancelled")) } else { Ok(()) }
    }
}
