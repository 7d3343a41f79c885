//! What can be asked of the ledger. An order may be done twice: when the group that it was in cannot be committed, it is
//! done again alone. So it changes nothing but rows; what follows from it happens after the commit.

use api::sidecar_wire::{TaskState, TaskType};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::error::Error;
use super::live::{Execution, Live};
use super::moment::{Clock, Moment};
use super::row::{self, Json, Task};
use crate::engine::decide::{Decision, decide};

/// A task as it was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its id, in the one spelling.
    pub id: String,
    /// Its kind.
    pub kind: TaskType,
    /// With what.
    pub params: Option<Json>,
    /// Who gave it, if that is known.
    pub caller: Option<String>,
}

/// How an execution ended.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// What it returned.
    pub result: Option<Json>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// What a submission came to.
#[derive(Clone, Debug)]
pub enum Submitted {
    /// The task is to be done now.
    Begun(Execution),
    /// The task runs or is done already.
    Repeated,
    /// Too many tasks are under way.
    Refused,
}

pub(super) type Answer<T> = oneshot::Sender<Result<T, Error>>;

/// What can be asked.
pub(super) enum Order {
    Submit(Given, u32, Answer<Submitted>),
    Adopt(String, Moment, Answer<Execution>),
    End(String, Moment, Ended, Answer<bool>),
    Get(String, Answer<Option<Task>>),
    Newest(u32, Answer<Vec<Task>>),
    Running(Answer<Vec<Task>>),
    LastSubmitted(TaskType, Answer<Option<Moment>>),
    Delete(String, Answer<bool>),
    DeleteKind(TaskType, Answer<usize>),
    Prune(Moment, Answer<usize>),
    Ping(Answer<()>),
    /// No more orders. It is never done: the thread sees it first.
    Close,
}

/// What an order came to, to be told once it is on disk.
pub(super) enum Done {
    Submitted(Submitted),
    Adopted(Execution),
    Ended(bool),
    Got(Option<Task>),
    Listed(Vec<Task>),
    Moment(Option<Moment>),
    Deleted(bool),
    DeletedKind(Vec<String>),
    Pruned(usize),
    Alive,
}

impl Order {
    /// Does it, as far as rows go.
    pub(super) fn apply(
        &self,
        connection: &Connection,
        clock: &mut Clock,
        live: &Live,
    ) -> rusqlite::Result<Done> {
        Ok(match self {
            Self::Submit(given, most, _) => Done::Submitted(submit(connection, clock, live, given, *most)?),
            Self::Adopt(id, submitted_at, _) => Done::Adopted(Execution {
                id: id.clone(),
                submitted_at: submitted_at.clone(),
                run: row::get(connection, id)?.map_or(1, |task| task.run),
                token: live.token(),
                progress: Default::default(),
            }),
            Self::End(id, submitted_at, ended, _) => {
                Done::Ended(end(connection, id, submitted_at, ended, &clock.now())?)
            }
            Self::Get(id, _) => Done::Got(row::get(connection, id)?),
            Self::Newest(count, _) => Done::Listed(row::newest(connection, *count)?),
            Self::Running(_) => Done::Listed(row::running(connection)?),
            Self::LastSubmitted(kind, _) => Done::Moment(row::last_submitted(connection, kind.as_str())?),
            Self::Delete(id, _) => {
                let mut delete = connection.prepare_cached("DELETE FROM task_results WHERE id = ?1")?;
                Done::Deleted(delete.execute([id])? > 0)
            }
            Self::DeleteKind(kind, _) => {
                let mut delete =
                    connection.prepare_cached("DELETE FROM task_results WHERE type = ?1 RETURNING id")?;
                let ids = delete.query_map([kind.as_str()], |row| row.get(0))?;
                Done::DeletedKind(ids.collect::<rusqlite::Result<_>>()?)
            }
            Self::Prune(before, _) => Done::Pruned(prune(connection, before)?),
            Self::Close => Done::Alive,
            Self::Ping(_) => {
                connection
                    .prepare_cached("SELECT count(*) FROM (SELECT 1 FROM task_results LIMIT 1)")?
                    .query_row([], |_| Ok(()))?;
                Done::Alive
            }
        })
    }

    /// Says what it came to.
    pub(super) fn answer(self, done: Result<Done, Error>, live: &mut Live) {
        // Whoever asked may have gone meanwhile; what was done stays done.
        match (self, done) {
            (Self::Submit(.., to), Ok(Done::Submitted(submitted))) => {
                if let Submitted::Begun(execution) = &submitted {
                    live.begin(execution.clone());
                }
                let _ = to.send(Ok(submitted));
            }
            (Self::Adopt(.., to), Ok(Done::Adopted(execution))) => {
                live.begin(execution.clone());
                let _ = to.send(Ok(execution));
            }
            (Self::End(id, submitted_at, _, to), Ok(Done::Ended(stored))) => {
                live.end(&id, &submitted_at);
                let _ = to.send(Ok(stored));
            }
            (Self::Get(_, to), Ok(Done::Got(task))) => {
                let _ = to.send(Ok(task.map(|task| live.with_progress(task))));
            }
            (Self::Newest(_, to), Ok(Done::Listed(tasks))) => {
                let _ = to.send(Ok(tasks.into_iter().map(|task| live.with_progress(task)).collect()));
            }
            (Self::Running(to), Ok(Done::Listed(tasks))) => drop(to.send(Ok(tasks))),
            (Self::LastSubmitted(_, to), Ok(Done::Moment(moment))) => drop(to.send(Ok(moment))),
            (Self::Delete(id, to), Ok(Done::Deleted(deleted))) => {
                live.cancel(&id);
                let _ = to.send(Ok(deleted));
            }
            (Self::DeleteKind(_, to), Ok(Done::DeletedKind(ids))) => {
                ids.iter().for_each(|id| live.cancel(id));
                let _ = to.send(Ok(ids.len()));
            }
            (Self::Prune(_, to), Ok(Done::Pruned(count))) => drop(to.send(Ok(count))),
            (Self::Ping(to), Ok(Done::Alive)) => drop(to.send(Ok(()))),
            (order, done) => order.refuse(done.err().unwrap_or(Error::Closed)),
        }
    }

    fn refuse(self, why: Error) {
        match self {
            Self::Submit(.., to) => drop(to.send(Err(why))),
            Self::Adopt(.., to) => drop(to.send(Err(why))),
            Self::End(.., to) => drop(to.send(Err(why))),
            Self::Get(_, to) => drop(to.send(Err(why))),
            Self::Newest(_, to) | Self::Running(to) => drop(to.send(Err(why))),
            Self::LastSubmitted(_, to) => drop(to.send(Err(why))),
            Self::Delete(_, to) => drop(to.send(Err(why))),
            Self::DeleteKind(_, to) | Self::Prune(_, to) => drop(to.send(Err(why))),
            Self::Ping(to) => drop(to.send(Err(why))),
            Self::Close => {}
        }
    }
}

fn submit(
    connection: &Connection,
    clock: &mut Clock,
    live: &Live,
    given: &Given,
    most: u32,
) -> rusqlite::Result<Submitted> {
    let there = row::get(connection, &given.id)?;
    let run = match decide(there.as_ref().map(|task| (task.state, task.run))) {
        Decision::Begin { run } => run,
        Decision::Repeat => return Ok(Submitted::Repeated),
    };
    // Those of the same group are not counted yet: they may be as many above the limit as one group holds.
    if live.count() >= most as usize {
        return Ok(Submitted::Refused);
    }
    let submitted_at = clock.now();
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO task_results (id, type, status, run, params, error, submitted_at, caller)
         VALUES (?1, ?2, 'running', ?3, ?4, '', ?5, ?6)",
    )?;
    // The program that we replace cannot read a row without any, and would do the task again.
    let params = given.params.as_ref().map_or("null", |params| params.get());
    insert.execute((&given.id, given.kind.as_str(), run, params, submitted_at.as_str(), &given.caller))?;
    Ok(Submitted::Begun(Execution {
        id: given.id.clone(),
        submitted_at,
        run,
        token: live.token(),
        progress: Default::default(),
    }))
}

/// Ends one execution. Nothing happens if the task was deleted or begun anew since.
fn end(
    connection: &Connection,
    id: &str,
    submitted_at: &Moment,
    ended: &Ended,
    now: &Moment,
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
fn prune(connection: &Connection, before: &Moment) -> rusqlite::Result<usize> {
    let mut delete = connection.prepare_cached(
        "DELETE FROM task_results WHERE rowid IN (
             SELECT rowid FROM task_results WHERE completed_at < ?1 AND status != 'running' AND submitted_at IS NOT (
                 SELECT max(submitted_at) FROM task_results WHERE type = ?2)
             LIMIT 500)",
    )?;
    delete.execute((before.as_str(), TaskType::MarkNotReady.as_str()))
}
