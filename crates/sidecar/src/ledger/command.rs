//! Ledger commands. A command may be applied twice: if its batch cannot be committed, it is applied again alone. So `apply` only
//! changes rows; everything else follows in `reply`, after the commit.

use api::sidecar_wire::{TaskState, TaskType};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::error::Error;
use super::execution::{Execution, RunningExecutions, UnfinishedTask};
use super::row::{self, RawJson, TaskRow};
use super::time::{Clock, StoredTime};

/// The outcome of a submission.
#[derive(Clone, Debug)]
pub enum SubmitOutcome {
    /// The caller must execute the task now.
    Started(Execution),
    /// The task is running or completed already.
    AlreadyExists,
    /// Too many executions are in progress.
    TooManyRunning,
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A command with the channel for its reply.
pub(super) enum Command {
    Submit {
        id: String,
        task_type: TaskType,
        params: Option<RawJson>,
        caller: Option<String>,
        max_running: u32,
        reply: Reply<SubmitOutcome>,
    },
    Resume {
        row: TaskRow,
        reply: Reply<Execution>,
    },
    Finish {
        id: String,
        submitted_at: StoredTime,
        result: Option<RawJson>,
        error: Option<String>,
        reply: Reply<bool>,
    },
    Get {
        id: String,
        reply: Reply<Option<TaskRow>>,
    },
    ListNewest {
        limit: u32,
        reply: Reply<Vec<TaskRow>>,
    },
    ListUnfinished {
        reply: Reply<Vec<UnfinishedTask>>,
    },
    LastSubmitted {
        task_type: TaskType,
        reply: Reply<Option<StoredTime>>,
    },
    Delete {
        id: String,
        reply: Reply<bool>,
    },
    DeleteType {
        task_type: TaskType,
        reply: Reply<usize>,
    },
    Prune {
        before: StoredTime,
        keep_newest: TaskType,
        reply: Reply<usize>,
    },
    Ping {
        reply: Reply<()>,
    },
    /// Closes the queue. Handled by the worker and never applied.
    Close,
}

/// The result of a command, sent after the commit.
pub(super) enum Applied {
    Submitted(SubmitOutcome),
    Resumed(Execution),
    Finished(bool),
    Found(Option<TaskRow>),
    Listed(Vec<TaskRow>),
    Time(Option<StoredTime>),
    Deleted(bool),
    DeletedIds(Vec<String>),
    Pruned(usize),
    Alive,
}

impl Command {
    /// Reads or changes the rows.
    pub(super) fn apply(
        &self,
        connection: &Connection,
        clock: &mut Clock,
        running: &RunningExecutions,
    ) -> rusqlite::Result<Applied> {
        Ok(match self {
            Self::Submit { id, task_type, params, caller, max_running, .. } => {
                let existing = row::get(connection, id)?;
                let Some(run) = next_run(existing.as_ref()) else {
                    return Ok(Applied::Submitted(SubmitOutcome::AlreadyExists));
                };
                // Executions started by the same batch are not counted yet: the limit may be exceeded by one batch.
                if running.count() >= *max_running as usize {
                    return Ok(Applied::Submitted(SubmitOutcome::TooManyRunning));
                }
                let row = TaskRow {
                    id: id.clone(),
                    task_type: task_type.as_str().to_owned(),
                    state: TaskState::Running,
                    run,
                    params: params.clone(),
                    result: None,
                    error: String::new(),
                    submitted_at: clock.now(),
                    completed_at: None,
                };
                row::insert(connection, &row, caller.as_deref())?;
                Applied::Submitted(SubmitOutcome::Started(Execution::new(row, running.new_token())))
            }
            Self::Resume { row, .. } => Applied::Resumed(Execution::new(row.clone(), running.new_token())),
            Self::Finish { id, submitted_at, result, error, .. } => Applied::Finished(row::finish(
                connection,
                (id, submitted_at),
                result.as_ref(),
                error.as_deref(),
                &clock.now(),
            )?),
            Self::Get { id, .. } => Applied::Found(row::get(connection, id)?),
            Self::ListNewest { limit, .. } => Applied::Listed(row::list_newest(connection, *limit)?),
            Self::ListUnfinished { .. } => Applied::Listed(row::list_running(connection)?),
            Self::LastSubmitted { task_type, .. } => {
                Applied::Time(row::last_submitted(connection, task_type.as_str())?)
            }
            Self::Delete { id, .. } => Applied::Deleted(row::delete(connection, id)?),
            Self::DeleteType { task_type, .. } => {
                Applied::DeletedIds(row::delete_type(connection, task_type.as_str())?)
            }
            Self::Prune { before, keep_newest, .. } => {
                Applied::Pruned(row::prune(connection, before, keep_newest.as_str())?)
            }
            Self::Ping { .. } => {
                row::ping(connection)?;
                Applied::Alive
            }
            Self::Close => Applied::Alive,
        })
    }

    /// Updates the running executions and sends the result.
    pub(super) fn reply(self, applied: Result<Applied, Error>, running: &mut RunningExecutions) {
        // The requester may be gone; the committed change stays.
        match (self, applied) {
            (Self::Submit { reply, .. }, Ok(Applied::Submitted(outcome))) => {
                if let SubmitOutcome::Started(execution) = &outcome {
                    running.insert(execution);
                }
                let _ = reply.send(Ok(outcome));
            }
            (Self::Resume { reply, .. }, Ok(Applied::Resumed(execution))) => {
                running.insert(&execution);
                let _ = reply.send(Ok(execution));
            }
            (Self::Finish { id, submitted_at, reply, .. }, Ok(Applied::Finished(stored))) => {
                running.remove(&id, &submitted_at);
                let _ = reply.send(Ok(stored));
            }
            (Self::Get { reply, .. }, Ok(Applied::Found(row))) => {
                let _ = reply.send(Ok(row.map(|row| running.with_progress(row))));
            }
            (Self::ListNewest { reply, .. }, Ok(Applied::Listed(rows))) => {
                let _ = reply.send(Ok(rows.into_iter().map(|row| running.with_progress(row)).collect()));
            }
            (Self::ListUnfinished { reply }, Ok(Applied::Listed(rows))) => {
                let _ = reply.send(Ok(rows.into_iter().map(|row| running.with_acceptance(row)).collect()));
            }
            (Self::LastSubmitted { reply, .. }, Ok(Applied::Time(time))) => drop(reply.send(Ok(time))),
            (Self::Delete { id, reply }, Ok(Applied::Deleted(deleted))) => {
                running.cancel(&id);
                let _ = reply.send(Ok(deleted));
            }
            (Self::DeleteType { reply, .. }, Ok(Applied::DeletedIds(ids))) => {
                ids.iter().for_each(|id| running.cancel(id));
                let _ = reply.send(Ok(ids.len()));
            }
            (Self::Prune { reply, .. }, Ok(Applied::Pruned(count))) => drop(reply.send(Ok(count))),
            (Self::Ping { reply }, Ok(Applied::Alive)) => drop(reply.send(Ok(()))),
            (command, applied) => command.fail(applied.err().unwrap_or(Error::Closed)),
        }
    }

    fn fail(self, error: Error) {
        match self {
            Self::Submit { reply, .. } => drop(reply.send(Err(error))),
            Self::Resume { reply, .. } => drop(reply.send(Err(error))),
            Self::Finish { reply, .. } | Self::Delete { reply, .. } => drop(reply.send(Err(error))),
            Self::Get { reply, .. } => drop(reply.send(Err(error))),
            Self::ListNewest { reply, .. } => drop(reply.send(Err(error))),
            Self::ListUnfinished { reply } => drop(reply.send(Err(error))),
            Self::LastSubmitted { reply, .. } => drop(reply.send(Err(error))),
            Self::DeleteType { reply, .. } | Self::Prune { reply, .. } => drop(reply.send(Err(error))),
            Self::Ping { reply } => drop(reply.send(Err(error))),
            Self::Close => {}
        }
    }
}

/// Returns the attempt that a submission starts, or `None` if the task is running or completed, whatever the submission contains.
/// Clients submit the same task every few seconds: only new and failed tasks start.
fn next_run(existing: Option<&TaskRow>) -> Option<u32> {
    match existing {
        None => Some(1),
        Some(row) if row.state == TaskState::Failed => Some(row.run.saturating_add(1)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_and_failed_tasks_start() {
        let row = |state, run| TaskRow {
            id: String::new(),
            task_type: String::new(),
            state,
            run,
            params: None,
            result: None,
            error: String::new(),
            submitted_at: StoredTime::default(),
            completed_at: None,
        };
        assert_eq!(next_run(None), Some(1));
        assert_eq!(next_run(Some(&row(TaskState::Failed, 3))), Some(4));
        assert_eq!(next_run(Some(&row(TaskState::Running, 1))), None);
        assert_eq!(next_run(Some(&row(TaskState::Completed, 2))), None);
    }
}
