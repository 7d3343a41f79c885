//! Dry-runs: the checks of a task without its effects. Nothing is written, and the ledger is not used.

use std::sync::Arc;
use std::time::Duration;

use api::sidecar_wire::DryRunResult;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::kinds::{self, DryRun, Kind, TaskError};
use crate::ledger::RawJson;
use crate::node::Node;

/// How many dry-runs are executed at a time. Each occupies a thread, also after its caller has left.
const MAX_CONCURRENT: usize = 4;

/// How long a caller waits for the others and for the locks, and how long in all. Callers with a short timeout can wait for that.
const START_TIMEOUT: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(3);

/// Why a dry-run did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DryRunError {
    /// The request is invalid: it could not be submitted.
    #[error("{0}")]
    Invalid(String),
    /// The task would fail with this error.
    #[error("{0}")]
    Rejected(String),
    /// The task cannot be checked now: retry later.
    #[error("{0}")]
    Unavailable(&'static str),
}

/// Executes dry-runs.
#[derive(Debug)]
pub(super) struct DryRuns {
    slots: Arc<Semaphore>,
}

impl Default for DryRuns {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(MAX_CONCURRENT)) }
    }
}

impl DryRuns {
    pub(super) async fn run(
        &self,
        node: &Node,
        kind: &'static Kind,
        params: Option<RawJson>,
    ) -> Result<DryRunResult, DryRunError> {
        let Some(dry_run) = kinds::find_dry_run(kind.task_type) else {
            let note = format!("{} has no dry-run: only the request was checked", kind.task_type);
            return Ok(DryRunResult { valid: true, note: Some(note) });
        };
        match timeout(TIMEOUT, self.execute(node, kind, dry_run, params)).await {
            Ok(Ok(result)) => result
                .map(|()| DryRunResult { valid: true, note: None })
                .map_err(|error| DryRunError::Rejected(error.message)),
            Ok(Err(unavailable)) => Err(unavailable),
            Err(_) => Err(DryRunError::Unavailable("the volume of the node is too slow for a dry-run")),
        }
    }

    pub(super) async fn execute(
        &self,
        node: &Node,
        kind: &'static Kind,
        dry_run: DryRun,
        params: Option<RawJson>,
    ) -> Result<Result<(), TaskError>, DryRunError> {
        // The semaphore is never closed.
        let Ok(Ok(slot)) = timeout(START_TIMEOUT, self.slots.clone().acquire_owned()).await else {
            return Err(DryRunError::Unavailable("too many concurrent dry-runs"));
        };
        // Locked so that it never reads one file from before a change and the other from after.
        let locks = async {
            let mut guards = Vec::with_capacity(kind.locks.len());
            for resource in kind.locks {
                guards.push(node.lock(*resource).await);
            }
            guards
        };
        let Ok(guards) = timeout(START_TIMEOUT, locks).await else {
            return Err(DryRunError::Unavailable("a task is changing what the dry-run reads"));
        };
        let home = node.home().to_owned();
        let checked = tokio::task::spawn_blocking(move || {
            // Held until the thread ends, which may be after the timeout.
            let _held = (slot, guards);
            dry_run(&home, params.as_deref())
        });
        Ok(checked.await.unwrap_or_else(|error| Err(error.into())))
    }
}
