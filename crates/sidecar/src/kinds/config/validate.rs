//! `config-validate`: validates the existing config files.

use api::sidecar_wire::TaskType;
use chain::config::validate;
use serde_json::json;

use super::super::{Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::node::config;

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::ConfigValidate,
    // Locked so that it never reads one file from before a change and the other from after.
    locks: &[Resource::Config],
    deadline: super::DEADLINE,
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let (home, id) = (ctx.node.home().to_owned(), ctx.execution.id.clone());
    ctx.blocking(move || {
        let failed = |error: &dyn std::fmt::Display| TaskError::new(format_args!("config-validate: {error}"));
        let existing =
            config::read(&home).map_err(|error| failed(&format_args!("reading config: {error}")))?;
        let report = validate(&existing, &config::host()).map_err(|error| failed(&error))?;
        if report.valid {
            super::log_warnings(&id, &report.diagnostics);
            return Ok(None);
        }
        Err(TaskError::new(format_args!("config validation failed: {}", json!(report))))
    })
    .await
}
