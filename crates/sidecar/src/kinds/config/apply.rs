//! `config-apply`: renders the node's config files, or edits the existing ones (`incremental`).

use api::sidecar_wire::TaskType;
use chain::config::{ConfigError, Intent, resolve};

use super::super::{Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
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
        let task = if intent.incremental { "config-apply incremental" } else { "config-apply" };
        let failed = |error: &dyn std::fmt::Display| TaskError::new(format_args!("{task}: {error}"));
        let existing = match intent.incremental {
            true => Some(config::read(&home).map_err(|error| failed(&error))?),
            false => None,
        };
        let resolved = resolve(&intent, existing.as_ref(), &config::host()).map_err(|error| match error {
            invalid @ ConfigError::Invalid(_) => TaskError::new(invalid),
            other => failed(&other),
        })?;
        super::log_warnings(&id, &resolved.findings);
        config::write(&home, &resolved.files)
            .map_err(|error| failed(&format_args!("writing config: {error}")))?;
        Ok(Some(super::result(&resolved, intent.incremental)))
    })
    .await
}
