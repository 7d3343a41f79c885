//! What a task works with, and what it comes to.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::ledger::{Execution, Json};
use crate::node::Node;

/// What a task came to: what it returned, or why it failed.
pub type Outcome = Result<Option<Value>, Failure>;

/// Why a task failed. The text is shown to whoever may read tasks, and copied into a node's status: no secrets.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct Failure {
    /// One line.
    pub why: String,
    /// What it returned nevertheless.
    pub result: Option<Value>,
    /// It panicked.
    pub panicked: bool,
}

impl Failure {
    /// It failed.
    pub fn new(why: impl fmt::Display) -> Self {
        Self { why: why.to_string(), result: None, panicked: false }
    }

    /// It panicked.
    pub fn panic(panic: &(dyn std::any::Any + Send)) -> Self {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        let why = format!("task handler panicked: {}", said.as_deref().unwrap_or("no message"));
        Self { why, result: None, panicked: true }
    }
}

/// What a task works with.
#[derive(Clone, Debug)]
pub struct Work {
    /// The node.
    pub node: Arc<Node>,
    /// This execution.
    pub execution: Execution,
    /// What the task was given.
    pub params: Option<Json>,
    /// Its threads: they are waited for, also after it was cancelled.
    pub threads: TaskTracker,
}

impl Work {
    /// What the task was given. Nothing is an empty object.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let text = self.params.as_ref().map_or("{}", |params| params.get());
        serde_json::from_str(text).map_err(|error| Failure::new(format_args!("parsing params: {error}")))
    }

    /// Does what blocks on a thread of its own. It must look at the token: it is not stopped otherwise.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        match self.threads.spawn_blocking(work).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => Err(Failure::panic(panic.as_ref())),
                Err(error) => Err(Failure::new(error)),
            },
        }
    }

    /// Fails when the task was cancelled: for threads, between two chunks.
    pub fn check(&self) -> Result<(), Failure> {
        if self.execution.token.is_cancelled() { Err(Failure::new("cancelled")) } else { Ok(()) }
    }
}
