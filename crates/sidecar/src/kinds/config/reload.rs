//! `config-reload`: changes settings that a running node may take. seid is not told: it reads them when it next starts.

use std::collections::BTreeMap;

use api::sidecar_wire::TaskType;
use chain::config::{ConfigError, reload};
use serde::Deserialize;

use super::super::{Doing, Failure, Kind, Outcome, Resource, Work};
use crate::node::config;

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::ConfigReload,
    changes: &[Resource::Config],
    limit: super::LIMIT,
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params {
    fields: BTreeMap<String, String>,
}

async fn run(work: Work) -> Outcome {
    let Params { fields } = work.params()?;
    let (home, id) = (work.node.home().to_owned(), work.execution.id.clone());
    work.blocking(move || {
        let failed = |why: &dyn std::fmt::Display| Failure::new(format_args!("config-reload: {why}"));
        if fields.is_empty() {
            return Err(failed(&"at least one field is required"));
        }
        let there = config::read(&home).map_err(|error| failed(&error))?;
        let resolved = reload(&fields, &there, &config::host()).map_err(|error| match error {
            invalid @ ConfigError::Invalid(_) => Failure::new(invalid),
            other => failed(&other),
        })?;
        super::warn(&id, &resolved.findings);
        config::write(&home, &resolved.files)
            .map_err(|error| failed(&format_args!("writing settings: {error}")))?;
        Ok(Some(super::told(&resolved, true)))
    })
    .await
}
