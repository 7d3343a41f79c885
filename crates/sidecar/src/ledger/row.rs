//! A row of the ledger: what is known of one task.

use api::sidecar_wire::TaskState;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow};
use serde_json::value::RawValue;

use super::moment::Moment;

/// JSON exactly as it was given: numbers keep every digit.
pub type Json = Box<RawValue>;

/// What is known of one task.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its id, in the one spelling.
    pub id: String,
    /// Its kind, as text: a ledger may hold kinds that we do not know.
    pub kind: String,
    /// How far it is.
    pub state: TaskState,
    /// Which attempt this is, from 1.
    pub run: u32,
    /// What it was given.
    pub params: Option<Json>,
    /// What it returned, or how far it is.
    pub result: Option<Json>,
    /// Why it failed; empty if it did not.
    pub error: String,
    /// When it was last given: with the id it names one execution.
    pub submitted_at: Moment,
    /// When it ended.
    pub completed_at: Option<Moment>,
}

const COLUMNS: &str = "id, type, status, run, params, result, error, submitted_at, completed_at";

/// The text of a state in the ledger.
pub(super) fn state_text(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
    }
}

/// A row that somebody has damaged harms only itself: what is no JSON becomes a text, which no task takes for parameters.
fn read(row: &SqlRow<'_>) -> rusqlite::Result<Task> {
    let json = |column: usize| -> rusqlite::Result<Option<Json>> {
        let text: Option<String> = row.get(column)?;
        let text = text.filter(|text| !text.is_empty() && text != "null");
        Ok(text.and_then(|text| {
            RawValue::from_string(text.clone()).or_else(|_| serde_json::value::to_raw_value(&text)).ok()
        }))
    };
    let moment = |text: &str| Moment::read(text).unwrap_or_default();
    let state: String = row.get(2)?;
    let completed: Option<String> = row.get(8)?;
    Ok(Task {
        id: row.get(0)?,
        kind: row.get(1)?,
        state: match state.as_str() {
            "running" => TaskState::Running,
            "completed" => TaskState::Completed,
            _ => TaskState::Failed,
        },
        run: row.get(3)?,
        params: json(4)?.filter(|params| params.get() != "{}"),
        result: json(5)?,
        error: row.get(6)?,
        submitted_at: moment(&row.get::<_, String>(7)?),
        completed_at: completed.map(|text| moment(&text)),
    })
}

pub(super) fn get(connection: &Connection, id: &str) -> rusqlite::Result<Option<Task>> {
    let query = format!("SELECT {COLUMNS} FROM task_results WHERE id = ?1");
    connection.prepare_cached(&query)?.query_row([id], read).optional()
}

pub(super) fn newest(connection: &Connection, count: u32) -> rusqlite::Result<Vec<Task>> {
    let query = format!("SELECT {COLUMNS} FROM task_results ORDER BY submitted_at DESC LIMIT ?1");
    connection.prepare_cached(&query)?.query_map([count], read)?.collect()
}

/// Those that run, the oldest first.
pub(super) fn running(connection: &Connection) -> rusqlite::Result<Vec<Task>> {
    let query = format!("SELECT {COLUMNS} FROM task_results WHERE status = 'running' ORDER BY submitted_at");
    connection.prepare_cached(&query)?.query_map([], read)?.collect()
}

/// When a task of a kind was last given, whatever became of it.
pub(super) fn last_submitted(connection: &Connection, kind: &str) -> rusqlite::Result<Option<Moment>> {
    let mut query =
        connection.prepare_cached("SELECT max(submitted_at) FROM task_results WHERE type = ?1")?;
    let text: Option<String> = query.query_row([kind], |row| row.get(0))?;
    Ok(text.as_deref().and_then(Moment::read))
}

/// When any task was last given.
pub(super) fn newest_submission(connection: &Connection) -> rusqlite::Result<Option<Moment>> {
    let text: Option<String> =
        connection.query_row("SELECT max(submitted_at) FROM task_results", [], |row| row.get(0))?;
    Ok(text.as_deref().and_then(Moment::read))
}
