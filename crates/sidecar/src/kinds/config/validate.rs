//! `config-validate`: judges the settings that are there.

use api::sidecar_wire::TaskType;
use chain::config::validate;
use serde_json::json;

use super::super::{Doing, Failure, Kind, Outcome, Resource, Work};
use crate::node::config;

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::ConfigValidate,
    // It must not see one file of before a change, and one of after.
    changes: &[Resource::Config],
    limit: super::LIMIT,
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let (home, id) = (work.node.home().to_owned(), work.execution.id.clone());
    work.blocking(move || {
        let failed = |why: &dyn std::fmt::Display| Failure::new(format_args!("config-validate: {why}"));
        let there = config::read(&home).map_err(|error| failed(&format_args!("reading config: {error}")))?;
        let report = validate(&there, &config::host()).map_err(|error| failed(&error))?;
        if report.valid {
            super::warn(&id, &report.diagnostics);
            return Ok(None);
        }
        Err(Failure::new(format_args!("config validation failed: {}", json!(report))))
    })
    .await
}
