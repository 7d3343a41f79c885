//! `config-patch`: changes single keys, spelled as the files do. Comments, order and everything else stay.

use std::collections::BTreeMap;

use api::sidecar_wire::TaskType;
use chain::config::Patchable;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::{Doing, Failure, Kind, Outcome, Resource, Work};
use crate::node::config;

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::ConfigPatch,
    changes: &[Resource::Config],
    limit: super::LIMIT,
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params {
    files: BTreeMap<String, Value>,
}

async fn run(work: Work) -> Outcome {
    let Params { files } = work.params()?;
    if files.is_empty() {
        return Err(Failure::new("config-patch: at least one file is required"));
    }
    let failed = |why: &dyn std::fmt::Display| Failure::new(format_args!("config-patch: {why}"));
    let mut trees: Vec<(Patchable, Map<String, Value>)> = Vec::new();
    for (name, tree) in files {
        // Of three names: any other could lead out of the folder.
        let file = name.parse::<Patchable>().map_err(|error| failed(&error))?;
        let Value::Object(tree) = tree else {
            return Err(failed(&format_args!("value for {name:?} must be a map")));
        };
        trees.push((file, tree));
    }
    let home = work.node.home().to_owned();
    work.blocking(move || config::patch(&home, &trees).map_err(|error| failed(&error))).await?;
    Ok(None)
}
