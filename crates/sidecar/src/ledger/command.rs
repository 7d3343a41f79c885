//! Ledger commands. A command may be applied twice: if its batch cannot be committed, it is applied again alone. So `apply` only
//! changes rows; side effects follow in `reply`, after the commit.

use api::sidecar_wire::{TaskState, TaskType};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::error::Error;
use super::execution::{Execution, RunningExecutions};
use super::row::{self, RawJson, TaskRow};
use super::time::{Clock, StoredTime};
use crate::engine::decide::{Decision, decide};

/// A task as it was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its id, in the one spelling.
    pub id: String,
    /// Its kind.
    pub kind: TaskType,
    /// With what.
    pub params: Option<RawJson>,
    /// Who gave it, if that is known.
    pub caller: Option<String>,
}

/// How an execution ended.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// What it returned.
    pub result: Option<RawJson>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// What a submission came to.
#[derive(Clone, Debug)]
pub enum Submitted {
    /// The task is to be done now.
    Started(Execution),
    /// The task runs or is done already.
    AlreadyExists,
    /// Too many tasks are under way.
    TooManyRunning,
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// What can be asked.
pub(super) enum Command {
    Submit(Given, u32, Reply<Submitted>),
    Resume(String, StoredTime, Reply<Execution>),
    Finish(String, StoredTime, Ended, Reply<bool>),
    Get(String, Reply<Option<TaskRow>>),
    Newest(u32, Reply<Vec<TaskRow>>),
    Running(Reply<Vec<TaskRow>>),
    LastSubmitted(TaskType, Reply<Option<StoredTime>>),
    Delete(String, Reply<bool>),
    DeleteType(TaskType, Reply<usize>),
    Prune(StoredTime, Reply<usize>),
    Ping(Reply<()>),
    /// No more commands. It is never done: the thread sees it first.
    Close,
}

/// What an order came to, to be told once it is on disk.
pub(super) enum Applied {
    Submitted(Submitted),
    Resumed(Execution),
    Finished(bool),
    Got(Option<TaskRow>),
    Listed(Vec<TaskRow>),
    StoredTime(Option<StoredTime>),
    Deleted(bool),
    DeletedType(Vec<String>),
    Pruned(usize),
    Alive,
}

impl Command {
    /// Does it, as far as rows go.
    pub(super) fn apply(
        &self,
        connection: &Connection,
        clock: &mut Clock,
        running: &RunningExecutions,
    ) -> rusqlite::Result<Applied> {
        Ok(match self {
            Self::Submit(given, max_running, _) => {
                Applied::Submitted(submit(connection, clock, running, given, *max_running)?)
            }
            Self::Resume(id, submitted_at, _) => Applied::Resumed(Execution {
                id: id.clone(),
                submitted_at: submitted_at.clone(),
                run: row::get(connection, id)?.map_or(1, |task| task.run),
                token: running.new_token(),
                progress: Default::default(),
            }),
            Self::Finish(id, submitted_at, ended, _) => {
                Applied::Finished(end(connection, id, submitted_at, ended, &clock.now())?)
            }
            Self::Get(id, _) => Applied::Got(row::get(connection, id)?),
            Self::Newest(count, _) => Applied::Listed(row::newest(connection, *count)?),
            Self::Running(_) => Applied::Listed(row::running(connection)?),
            Self::LastSubmitted(kind, _) => {
                Applied::StoredTime(row::last_submitted(connection, kind.as_str())?)
            }
            Self::Delete(id, _) => {
                let mut delete = connection.prepare_cached("DELETE FROM task_results WHERE id = ?1")?;
                Applied::Deleted(delete.execute([id])? > 0)
            }
            Self::DeleteType(kind, _) => {
                let mut delete =
                    connection.prepare_cached("DELETE FROM task_results WHERE type = ?1 RETURNING id")?;
                let ids = delete.query_map([kind.as_str()], |row| row.get(0))?;
                Applied::DeletedType(ids.collect::<rusqlite::Result<_>>()?)
            }
            Self::Prune(before, _) => Applied::Pruned(prune(connection, before)?),
            Self::Close => Applied::Alive,
            Self::Ping(_) => {
                connection
                    .prepare_cached("SELECT count(*) FROM (SELECT 1 FROM task_results LIMIT 1)")?
                    .query_row([], |_| Ok(()))?;
                Applied::Alive
            }
        })
    }

    /// Says what it came to.
    pub(super) fn reply(self, applied: Result<Applied, Error>, running: &mut RunningExecutions) {
        // Whoever asked may have gone meanwhile; what was done stays done.
        match (self, applied) {
            (Self::Submit(.., to), Ok(Applied::Submitted(submitted))) => {
                if let Submitted::Started(execution) = &submitted {
                    running.insert(execution.clone());
                }
                let _ = to.send(Ok(submitted));
            }
            (Self::Resume(.., to), Ok(Applied::Resumed(execution))) => {
                running.insert(execution.clone());
                let _ = to.send(Ok(execution));
            }
            (Self::Finish(id, submitted_at, _, to), Ok(Applied::Finished(stored))) => {
                running.remove(&id, &submitted_at);
                let _ = to.send(Ok(stored));
            }
            (Self::Get(_, to), Ok(Applied::Got(task))) => {
                let _ = to.send(Ok(task.map(|task| running.with_progress(task))));
            }
            (Self::Newest(_, to), Ok(Applied::Listed(tasks))) => {
                let _ = to.send(Ok(tasks.into_iter().map(|task| running.with_progress(task)).collect()));
            }
            (Self::Running(to), Ok(Applied::Listed(tasks))) => drop(to.send(Ok(tasks))),
            (Self::LastSubmitted(_, to), Ok(Applied::StoredTime(moment))) => drop(to.send(Ok(moment))),
            (Self::Delete(id, to), Ok(Applied::Deleted(deleted))) => {
                running.cancel(&id);
                let _ = to.send(Ok(deleted));
            }
            (Self::DeleteType(_, to), Ok(Applied::DeletedType(ids))) => {
                ids.iter().for_each(|id| running.cancel(id));
                let _ = to.send(Ok(ids.len()));
            }
            (Self::Prune(_, to), Ok(Applied::Pruned(count))) => drop(to.send(Ok(count))),
            (Self::Ping(to), Ok(Applied::Alive)) => drop(to.send(Ok(()))),
            (command, applied) => command.fail(applied.err().unwrap_or(Error::Closed)),
        }
    }

    fn fail(self, error: Error) {
        match self {
            Self::Submit(.., to) => drop(to.send(Err(error))),
            Self::Resume(.., to) => drop(to.send(Err(error))),
            Self::Finish(.., to) => drop(to.send(Err(error))),
            Self::Get(_, to) => drop(to.send(Err(error))),
            Self::Newest(_, to) | Self::Running(to) => drop(to.send(Err(error))),
            Self::LastSubmitted(_, to) => drop(to.send(Err(error))),
            Self::Delete(_, to) => drop(to.send(Err(error))),
            Self::DeleteType(_, to) | Self::Prune(_, to) => drop(to.send(Err(error))),
            Self::Ping(to) => drop(to.send(Err(error))),
            Self::Close => {}
        }
    }
}

fn submit(
    connection: &Connection,
    clock: &mut Clock,
    running: &RunningExecutions,
    given: &Given,
    max_running: u32,
) -> rusqlite::Result<Submitted> {
    let existing = row::get(connection, &given.id)?;
    let run = match decide(existing.as_ref().map(|task| (task.state, task.run))) {
        Decision::Start { run } => run,
        Decision::Ignore => return Ok(Submitted::AlreadyExists),
    };
    // Those of the same group are not counted yet: they may be as many above the limit as one group holds.
    if running.count() >= max_running as usize {
        return Ok(Submitted::TooManyRunning);
    }
    let submitted_at = clock.now();
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO task_results (id, type, status, run, params, error, submitted_at, caller)
         VALUES (?1, ?2, 'running', ?3, ?4, '', ?5, ?6)",
    )?;
    // The program that we replace cannot read a row without any, and would do the task again.
    let params = given.params.as_ref().map_or("null", |params| params.get());
    insert.execute((&given.id, given.kind.as_str(), run, params, submitted_at.as_str(), &given.caller))?;
    Ok(Submitted::Started(Execution {
        id: given.id.clone(),
        submitted_at,
        run,
        token: running.new_token(),
        progress: Default::default(),
    }))
}

/// Ends one execution. Nothing happens if the task was deleted or begun anew since.
fn end(
    connection: &Connection,
    id: &str,
    submitted_at: &StoredTime,
    ended: &Ended,
    now: &StoredTime,
) -> rusqlite::Result<bool> {
    let state = if ended.error.is_some() { TaskState::Failed } else { TaskState::Completed };
    let mut update = connection.prepare_cached(
        "UPDATE task_results SET status = ?3, result = ?4, error = ?5, completed_at = ?6
         WHERE id = ?1 AND submitted_at = ?2 AND status = 'running'",
    )?;
    let changed = update.execute((
        id,
        submitted_at.as_str(),
        row::state_text(state),
        ended.result.as_ref().map(|result| result.get()),
        ended.error.as_deref().unwrap_or_default(),
        now.as_str(),
    ))?;
    Ok(changed > 0)
}

/// Forgets tasks that ended before a time: some at a time, so that others are not held up. The newest hold stays: recovery asks
/// for it.
fn prune(connection: &Connection, before: &StoredTime) -> rusqlite::Result<usize> {
    let mut delete = connection.prepare_cached(
        "DELETE FROM task_results WHERE rowid IN (
             SELECT rowid FROM task_results WHERE completed_at < ?1 AND status != 'running' AND submitted_at IS NOT (
                 SELECT max(submitted_at) FROM task_results WHERE type = ?2)
             LIMIT 500)",
    )?;
    delete.execute((before.as_str(), TaskType::MarkNotReady.as_str()))
}
