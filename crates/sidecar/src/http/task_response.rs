//! The body of a task response.

use api::sidecar_wire::TaskState;
use serde::Serialize;

use crate::ledger::{RawJson, TaskRow};

/// A task on the wire: the server side of [`api::sidecar_wire::TaskResult`]. JSON stays raw so that numbers keep every digit, and
/// times keep nanoseconds. The caller is never exposed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskResponse {
    id: String,
    #[serde(rename = "type")]
    task_type: String,
    status: TaskState,
    run: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RawJson>,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    submitted_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
}

impl From<TaskRow> for TaskResponse {
    fn from(row: TaskRow) -> Self {
        Self {
            id: row.id,
            task_type: row.task_type,
            status: row.state,
            run: row.run,
            params: row.params,
            result: row.result,
            error: row.error,
            submitted_at: row.submitted_at.for_clients(),
            completed_at: row.completed_at.map(|time| time.for_clients()),
        }
    }
}
