//! `config-reload`: changes settings that are safe on a running node. seid is not signaled: it reads them at its next start.

use std::collections::BTreeMap;

use api::sidecar_wire::TaskType;
use chain::config::{ConfigError, reload};
use serde::Deserialize;

use super::super::{Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::node::config;

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::ConfigReload,
    locks: &[Resource::Config],
    deadline: super::DEADLINE,
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params {
    fields: BTreeMap<String, String>,
}

async fn run(ctx: TaskContext) -> TaskOutcome {
    let Params { fields } = ctx.params()?;
    let (home, id) = (ctx.node.home().to_owned(), ctx.execution.id.clone());
    ctx.blocking(move || {
        let failed = |error: &dyn std::fmt::Display| TaskError::new(format_args!("config-reload: {error}"));
        if fields.is_empty() {
            return Err(failed(&"at least one field is required"));
        }
        let existing = config::read(&home).map_err(|error| failed(&error))?;
        let resolved = reload(&fields, &existing, &config::host()).map_err(|error| match error {
            invalid @ ConfigError::Invalid(_) => TaskError::new(invalid),
            other => failed(&other),
        })?;
        super::log_warnings(&id, &resolved.findings);
        config::write(&home, &resolved.files)
            .map_err(|error| failed(&format_args!("writing config: {error}")))?;
        Ok(Some(super::result(&resolved, true)))
    })
    .await
}
