//! `config-apply`: writes a node's settings anew, or changes some of those that are there.

use api::sidecar_wire::TaskType;
use chain::config::{ConfigError, Intent, resolve};

use super::super::{Doing, Failure, Kind, Outcome, Resource, Work};
use crate::node::config;

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::ConfigApply,
    changes: &[Resource::Config],
    limit: super::LIMIT,
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let intent: Intent = work.params()?;
    let (home, id) = (work.node.home().to_owned(), work.execution.id.clone());
    work.blocking(move || {
        let task = if intent.incremental { "config-apply incremental" } else { "config-apply" };
        let failed = |why: &dyn std::fmt::Display| Failure::new(format_args!("{task}: {why}"));
        let there = match intent.incremental {
            true => Some(config::read(&home).map_err(|error| failed(&error))?),
            false => None,
        };
        let resolved = resolve(&intent, there.as_ref(), &config::host()).map_err(|error| match error {
            invalid @ ConfigError::Invalid(_) => Failure::new(invalid),
            other => failed(&other),
        })?;
        super::warn(&id, &resolved.findings);
        config::write(&home, &resolved.files)
            .map_err(|error| failed(&format_args!("writing settings: {error}")))?;
        Ok(Some(super::told(&resolved, intent.incremental)))
    })
    .await
}
