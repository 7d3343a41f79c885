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
pub(super) fn state_text(state: TaskState) -> &'static str {
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

pub(super) fn get(connection: &Connection, id: &str) -> rusqlite::Result<Option<TaskRow>> {
    let query = format!("SELECT {COLUMNS} FROM task_results WHERE id = ?1");
    connection.prepare_cached(&query)?.query_row([id], from_sql).optional()
}

pub(super) fn newest(connection: &Connection, count: u32) -> rusqlite::Result<Vec<TaskRow>> {
    let query = format!("SELECT {COLUMNS} FROM task_results ORDER BY submitted_at DESC LIMIT ?1");
    connection.prepare_cached(&query)?.query_map([count], from_sql)?.collect()
}

/// Returns the running tasks, oldest first.
pub(super) fn running(connection: &Connection) -> rusqlite::Result<Vec<TaskRow>> {
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
