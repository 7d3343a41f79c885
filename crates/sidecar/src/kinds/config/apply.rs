//! `config-apply`: renders the node's config files, or edits the existing ones (`incremental`).

use std::path::Path;

use api::sidecar_wire::TaskType;
use chain::config::{ConfigError, Intent, Resolved};
use serde_json::value::RawValue;

use super::super::{Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome, parse_params};
use crate::node::config;

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::ConfigApply,
    locks: &[Resource::Config],
    deadline: super::DEADLINE,
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let intent: Intent = ctx.params()?;
    let (home, id) = (ctx.node.home().to_owned(), ctx.execution.id.clone());
    ctx.blocking(move || {
        let resolved = resolve(&home, &intent)?;
        super::log_warnings(&id, &resolved.findings);
        config::write(&home, &resolved.files)
            .map_err(|error| failed(&intent, &format_args!("writing config: {error}")))?;
        Ok(Some(super::result(&resolved, intent.incremental)))
    })
    .await
}

/// Does everything that the task does, except writing.
pub(in crate::kinds) fn dry_run(home: &Path, params: Option<&RawValue>) -> Result<(), TaskError> {
    resolve(home, &parse_params(params)?).map(drop)
}

/// Resolves the configuration from the parameters and the existing files.
fn resolve(home: &Path, intent: &Intent) -> Result<Resolved, TaskError> {
    let existing = match intent.incremental {
        true => Some(config::read(home).map_err(|error| failed(intent, &error))?),
        false => None,
    };
    chain::config::resolve(intent, existing.as_ref(), &config::host()).map_err(|error| match error {
        invalid @ ConfigError::Invalid(_) => TaskError::new(invalid),
        other => failed(intent, &other),
    })
}

fn failed(intent: &Intent, error: &dyn std::fmt::Display) -> TaskError {
    let task = if intent.incremental { "config-apply incremental" } else { "config-apply" };
    TaskError::new(format_args!("{task}: {error}"))
}
