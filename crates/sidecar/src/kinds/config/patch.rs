//! `config-patch`: sets single keys by their name in the file. Comments, order and all other keys are preserved.

use std::collections::BTreeMap;

use api::sidecar_wire::TaskType;
use chain::config::Patchable;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::{Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::node::config;

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::ConfigPatch,
    locks: &[Resource::Config],
    deadline: super::DEADLINE,
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params {
    files: BTreeMap<String, Value>,
}

async fn run(ctx: TaskContext) -> TaskOutcome {
    let Params { files } = ctx.params()?;
    if files.is_empty() {
        return Err(TaskError::new("config-patch: at least one file is required"));
    }
    let failed = |error: &dyn std::fmt::Display| TaskError::new(format_args!("config-patch: {error}"));
    let mut trees: Vec<(Patchable, Map<String, Value>)> = Vec::new();
    for (name, tree) in files {
        // Only three file names are allowed: any other could escape the config directory.
        let file = name.parse::<Patchable>().map_err(|error| failed(&error))?;
        let Value::Object(tree) = tree else {
            return Err(failed(&format_args!("value for {name:?} must be a map")));
        };
        trees.push((file, tree));
    }
    let home = ctx.node.home().to_owned();
    ctx.blocking(move || config::patch(&home, &trees).map_err(|error| failed(&error))).await?;
    Ok(None)
}
