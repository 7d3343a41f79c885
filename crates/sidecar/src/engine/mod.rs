//! The engine: takes tasks, does them, and stores what they came to.

pub mod decide;
mod execute;
mod locks;
pub mod recovery;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::locks::Locks;
use self::recovery::Recovery;
use crate::kinds::{self, Kind, Known};
use crate::ledger::{self, Ended, Execution, Given, Json, Ledger, Moment, Submitted, Task};
use crate::metrics::Metrics;
use crate::node::Node;

/// How long a caller waits for its submission to be on disk.
const SUBMITTED_WITHIN: Duration = Duration::from_secs(8);

/// How long the ledger may take to say that it is there.
const ALIVE_WITHIN: Duration = Duration::from_secs(2);

/// Time between two looks for tasks that are kept for long enough.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);

/// Why a task was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It will never be.
    #[error("{0}")]
    Wrong(String),
    /// It may be later.
    #[error("{0}")]
    Later(String),
}

impl From<ledger::Error> for Refusal {
    fn from(error: ledger::Error) -> Self {
        Self::Later(error.to_string())
    }
}

/// The engine.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    node: Arc<Node>,
    locks: Locks,
    metrics: Metrics,
    /// Cancelled when the process ends.
    end: CancellationToken,
    /// Everything that is under way.
    under_way: TaskTracker,
    /// Executions whose work does not end.
    stuck: AtomicUsize,
    most: u32,
}

impl Engine {
    /// An engine that does nothing yet.
    #[must_use]
    pub fn new(node: Arc<Node>, end: CancellationToken) -> Self {
        let settings = node.settings();
        let (most, places) = (settings.max_tasks, settings.max_working_tasks);
        Self(Arc::new(Inner {
            ledger: node.ledger().clone(),
            node: node.clone(),
            locks: Locks::new(node.clone(), places),
            metrics: node.metrics().clone(),
            end,
            under_way: TaskTracker::new(),
            stuck: AtomicUsize::new(0),
            most,
        }))
    }

    /// Takes a task: when this returns, it is on disk. The same id is the same task; [`decide`] says what that means.
    pub async fn submit(
        &self,
        id: Option<&str>,
        name: &str,
        params: Option<Json>,
        caller: Option<String>,
    ) -> Result<String, Refusal> {
        let kind = match kinds::find(name) {
            Some(Known::Kind(kind)) => kind,
            Some(Known::Unsupported(task, why)) => {
                return Err(Refusal::Wrong(kinds::unsupported(task, why)));
            }
            None => return Err(Refusal::Wrong(format!("unknown task type: {name}"))),
        };
        let id = match id {
            None => uuid::Uuid::new_v4().hyphenated().to_string(),
            Some(id) => ledger::canonical(id)
                .ok_or_else(|| Refusal::Wrong(format!("task ID must be a valid UUID: {id:?}")))?,
        };
        let given = Given { id: id.clone(), kind: kind.task, params: params.clone(), caller };
        // On its own: a caller who hangs up must not take a task along that is begun already.
        let engine = self.0.clone();
        let submitted = self.0.under_way.spawn(async move { engine.submit(kind, given, params).await });
        match tokio::time::timeout(SUBMITTED_WITHIN, submitted).await {
            Ok(Ok(done)) => done.map(|()| id),
            Ok(Err(error)) => Err(Refusal::Later(error.to_string())),
            Err(_) => Err(ledger::Error::Silent.into()),
        }
    }

    /// Takes up what a process before this one did not end, holds first. Nobody may connect before this returns.
    pub async fn recover(&self) -> Result<(), ledger::Error> {
        for hold in recovery::holds(&self.0.ledger.running().await?) {
            if let Some(Known::Kind(kind)) = kinds::find(&hold.kind) {
                let execution = self.0.ledger.adopt(&hold).await?;
                self.0.clone().execute(kind, execution, hold.params).await;
            }
        }
        let stranded = self.0.ledger.running().await?;
        let newest_hold = self.0.ledger.last_submitted(api::sidecar_wire::TaskType::MarkNotReady).await;
        for recovery in recovery::rest(stranded, &newest_hold) {
            match recovery {
                Recovery::Run(task, kind) => {
                    let execution = self.0.ledger.adopt(&task).await?;
                    self.0.begin(kind, execution, task.params);
                }
                Recovery::Fail(task, why) => {
                    tracing::warn!(task = task.kind, id = task.id, why, "not taken up");
                    let execution = self.0.ledger.adopt(&task).await?;
                    self.0.ledger.end(&execution, Ended { result: None, error: Some(why) }).await?;
                }
            }
        }
        Ok(())
    }

    /// One task.
    pub async fn get(&self, id: &str) -> Result<Option<Task>, ledger::Error> {
        match ledger::canonical(id) {
            Some(id) => self.0.ledger.get(&id).await,
            None => Ok(None),
        }
    }

    /// The newest hundred, the newest first.
    pub async fn newest(&self) -> Result<Vec<Task>, ledger::Error> {
        self.0.ledger.newest().await
    }

    /// Forgets a task and cancels it; false if there is none.
    pub async fn delete(&self, id: &str) -> Result<bool, ledger::Error> {
        match ledger::canonical(id) {
            Some(id) => self.0.ledger.delete(&id).await,
            None => Ok(false),
        }
    }

    /// The node that it works on.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.0.node
    }

    /// Which check of its health fails, if one does. Only a restart helps then.
    pub async fn hung(&self) -> Option<String> {
        if self.0.stuck.load(Ordering::Relaxed) > 0 {
            return Some("a task's work does not end".into());
        }
        self.0.ledger.ping(ALIVE_WITHIN).await.err().map(|error| error.to_string())
    }

    /// Forgets tasks that were kept for long enough, for ever.
    pub async fn prune(&self) {
        let keep = self.0.node.settings().keep_tasks_for;
        loop {
            let now = k8s_openapi::jiff::Timestamp::now();
            if let Ok(before) = now.checked_sub(keep) {
                while matches!(self.0.ledger.prune(Moment::from(before)).await, Ok(1..)) {
                    tokio::task::yield_now().await;
                }
            }
            tokio::time::sleep(PRUNE_EVERY).await;
        }
    }

    /// Cancels everything and waits for it; false if that took too long.
    pub async fn end(&self, within: Duration) -> bool {
        self.0.end.cancel();
        self.0.under_way.close();
        tokio::time::timeout(within, self.0.under_way.wait()).await.is_ok()
    }
}

impl Inner {
    async fn submit(
        self: Arc<Self>,
        kind: &'static Kind,
        given: Given,
        params: Option<Json>,
    ) -> Result<(), Refusal> {
        match self.ledger.submit(given, self.most).await? {
            Submitted::Begun(execution) => {
                self.metrics.begun(kind.task);
                self.begin(kind, execution, params);
                Ok(())
            }
            Submitted::Repeated => Ok(()),
            Submitted::Refused => Err(Refusal::Later(format!(
                "{} tasks are under way: no more are taken (--max-tasks)",
                self.most
            ))),
        }
    }

    fn begin(self: &Arc<Self>, kind: &'static Kind, execution: Execution, params: Option<Json>) {
        self.under_way.spawn(self.clone().execute(kind, execution, params));
    }
}

#[cfg(test)]
mod tests;
