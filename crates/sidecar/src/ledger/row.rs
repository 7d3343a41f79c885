//! Ledger rows.

use api::sidecar_wire::TaskState;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow};
use serde_json::value::RawValue;

use super::time::StoredTime;

/// JSON exactly as received: numbers keep every digit.
pub type RawJson = Box<RawValue>;

/// One task as stored.
#[derive(Clone, Debug)]
pub struct TaskRow {
    /// The canonical task ID.
    pub id: String,
    /// The task type as text: a ledger may hold types this version does not know.
    pub task_type: String,
    /// The state.
    pub state: TaskState,
    /// The attempt, from 1.
    pub run: u32,
    /// The parameters.
    pub params: Option<RawJson>,
    /// The result, or the progress of a running task.
    pub result: Option<RawJson>,
    /// The error; empty unless the task failed.
    pub error: String,
    /// The time of the last submission. Together with the ID it identifies one execution.
    pub submitted_at: StoredTime,
    /// When the task finished.
    pub completed_at: Option<StoredTime>,
}

const COLUMNS: &str = "id, type, status, run, params, result, error, submitted_at, completed_at";

/// Returns the stored text of a state.
fn state_text(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
    }
}

/// Reads a row. Malformed JSON becomes a JSON string, which no task accepts as parameters: a damaged row affects only its own task.
fn from_sql(row: &SqlRow<'_>) -> rusqlite::Result<TaskRow> {
    let json = |column: usize| -> rusqlite::Result<Option<RawJson>> {
        let text: Option<String> = row.get(column)?;
        let text = text.filter(|text| !text.is_empty() && text != "null");
        Ok(text.and_then(|text| {
            RawValue::from_string(text.clone()).or_else(|_| serde_json::value::to_raw_value(&text)).ok()
        }))
    };
    let time = |text: &str| StoredTime::parse(text).unwrap_or_default();
    let state: String = row.get(2)?;
    let completed: Option<String> = row.get(8)?;
    Ok(TaskRow {
        id: row.get(0)?,
        task_type: row.get(1)?,
        state: match state.as_str() {
            "running" => TaskState::Running,
            "completed" => TaskState::Completed,
            _ => TaskState::Failed,
        },
        run: row.get(3)?,
        params: json(4)?.filter(|params| params.get() != "{}"),
        result: json(5)?,
        error: row.get(6)?,
        submitted_at: time(&row.get::<_, String>(7)?),
        completed_at: completed.map(|text| time(&text)),
    })
}

/// Returns a task.
pub(super) fn get(connection: &Connection, id: &str) -> rusqlite::Result<Option<TaskRow>> {
    let query = format!("SELECT {COLUMNS} FROM task_results WHERE id = ?1");
    connection.prepare_cached(&query)?.query_row([id], from_sql).optional()
}

/// Returns the newest tasks, newest first.
pub(super) fn list_newest(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<TaskRow>> {
    let query = format!("SELECT {COLUMNS} FROM task_results ORDER BY submitted_at DESC LIMIT ?1");
    connection.prepare_cached(&query)?.query_map([limit], from_sql)?.collect()
}

/// Returns the running tasks, oldest first.
pub(super) fn list_running(connection: &Connection) -> rusqlite::Result<Vec<TaskRow>> {
    let query = format!("SELECT {COLUMNS} FROM task_results WHERE status = 'running' ORDER BY submitted_at");
    connection.prepare_cached(&query)?.query_map([], from_sql)?.collect()
}

/// Returns the last submission time of a task type, whatever the state of the task.
pub(super) fn last_submitted(
    connection: &Connection,
    task_type: &str,
) -> rusqlite::Result<Option<StoredTime>> {
    let mut query =
        connection.prepare_cached("SELECT max(submitted_at) FROM task_results WHERE type = ?1")?;
    let text: Option<String> = query.query_row([task_type], |row| row.get(0))?;
    Ok(text.as_deref().and_then(StoredTime::parse))
}

/// Returns the last submission time of any task.
pub(super) fn newest_submission(connection: &Connection) -> rusqlite::Result<Option<StoredTime>> {
    let text: Option<String> =
        connection.query_row("SELECT max(submitted_at) FROM task_results", [], |row| row.get(0))?;
    Ok(text.as_deref().and_then(StoredTime::parse))
}

/// Stores a new execution; it replaces an earlier one of the same task.
pub(super) fn insert(connection: &Connection, row: &TaskRow, caller: Option<&str>) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO task_results (id, type, status, run, params, error, submitted_at, caller)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    // Never NULL: upstream cannot read such a row and would run the task again.
    let params = row.params.as_ref().map_or("null", |params| params.get());
    insert
        .execute((
            &row.id,
            &row.task_type,
            state_text(row.state),
            row.run,
            params,
            &row.error,
            row.submitted_at.as_str(),
            caller,
        ))
        .map(drop)
}

/// Stores the result of an execution; returns false if the task was deleted or submitted again since.
pub(super) fn finish(
    connection: &Connection,
    (id, submitted_at): (&str, &StoredTime),
    result: Option<&RawJson>,
    error: Option<&str>,
    now: &StoredTime,
) -> rusqlite::Result<bool> {
    let state = if error.is_some() { TaskState::Failed } else { TaskState::Completed };
    let mut update = connection.prepare_cached(
        "UPDATE task_results SET status = ?3, result = ?4, error = ?5, completed_at = ?6
         WHERE id = ?1 AND submitted_at = ?2 AND status = 'running'",
    )?;
    let changed = update.execute((
        id,
        submitted_at.as_str(),
        state_text(state),
        result.map(|result| result.get()),
        error.unwrap_or_default(),
        now.as_str(),
    ))?;
    Ok(changed > 0)
}

/// Deletes a task; returns false if it does not exist.
pub(super) fn delete(connection: &Connection, id: &str) -> rusqlite::Result<bool> {
    let mut delete = connection.prepare_cached("DELETE FROM task_results WHERE id = ?1")?;
    Ok(delete.execute([id])? > 0)
}

/// Deletes all tasks of a type; returns their IDs.
pub(super) fn delete_type(connection: &Connection, task_type: &str) -> rusqlite::Result<Vec<String>> {
    let mut delete = connection.prepare_cached("DELETE FROM task_results WHERE type = ?1 RETURNING id")?;
    delete.query_map([task_type], |row| row.get(0))?.collect()
}

/// Deletes a batch of tasks that finished before a time, except the newest task of one type; returns how many. Batches keep the
/// queue responsive.
pub(super) fn prune(
    connection: &Connection,
    before: &StoredTime,
    keep_newest: &str,
) -> rusqlite::Result<usize> {
    let mut delete = connection.prepare_cached(
        "DELETE FROM task_results WHERE rowid IN (
             SELECT rowid FROM task_results WHERE completed_at < ?1 AND status != 'running' AND submitted_at IS NOT (
                 SELECT max(submitted_at) FROM task_results WHERE type = ?2)
             LIMIT 500)",
    )?;
    delete.execute((before.as_str(), keep_newest))
}

/// Runs a minimal query.
pub(super) fn ping(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached("SELECT count(*) FROM (SELECT 1 FROM task_results LIMIT 1)")?
        .query_row([], |_| Ok(()))
}
