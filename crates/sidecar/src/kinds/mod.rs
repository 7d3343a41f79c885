//! The kinds of tasks: one file each, and one line in [`TABLE`].

mod await_condition;
mod ceremony;
mod config;
mod configure_genesis;
mod configure_state_sync;
mod discover_peers;
mod mark_not_ready;
pub mod mark_ready;
mod reset_data;
mod restart_seid;
mod result_export;
mod set_genesis_peers;
mod snapshot;
mod stop_seid;
mod work;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use api::sidecar_wire::TaskType;
use serde_json::json;

pub use self::work::{Failure, Outcome, Work};

/// What of a node a task changes. Two tasks that change the same never work at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Whether seid may start.
    Readiness,
    /// The process of seid.
    Process,
    /// The files in `config`, but for the genesis file.
    Config,
    /// The genesis file, and what it is made from.
    Genesis,
    /// The chain's data, snapshots among them.
    Data,
    /// Which snapshot was uploaded last.
    Upload,
    /// Which block was exported last.
    Export,
}

impl Resource {
    /// How many there are.
    pub const COUNT: usize = 7;
}

/// How long a task may take, from when it has what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So long.
    Within(Duration),
    /// As long as an upload may take, by the settings.
    Upload,
    /// For ever: it is a loop whose every round has a limit.
    Endless,
}

/// A kind of task.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Its name.
    pub task: TaskType,
    /// What it changes.
    pub changes: &'static [Resource],
    /// How long it may take.
    pub limit: Limit,
    /// Whether it mostly waits: it takes no place of those that work.
    pub waits: bool,
    /// Does it.
    pub run: fn(Work) -> Doing,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.task).finish()
    }
}

/// A task that is being done.
pub type Doing = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Every kind that this build does.
pub const TABLE: &[Kind] = &[
    mark_ready::KIND,
    mark_not_ready::KIND,
    restart_seid::KIND,
    stop_seid::KIND,
    reset_data::KIND,
    await_condition::KIND,
    config::apply::KIND,
    config::patch::KIND,
    config::reload::KIND,
    config::validate::KIND,
    configure_genesis::KIND,
    ceremony::identity::KIND,
    ceremony::gentx::KIND,
    ceremony::artifacts::KIND,
    ceremony::assemble::KIND,
    set_genesis_peers::KIND,
    discover_peers::KIND,
    configure_state_sync::KIND,
    snapshot::restore::KIND,
    snapshot::upload::KIND,
    snapshot::upload_once::KIND,
    result_export::KIND,
];

/// What this build does not do, and what to do instead. It is refused at submission.
pub const UNSUPPORTED: &[(TaskType, &str)] = &[
    (TaskType::GovVote, "sign and broadcast it with seid"),
    (TaskType::GovSoftwareUpgrade, "sign and broadcast it with seid"),
    (TaskType::GovParamChange, "sign and broadcast it with seid"),
    (TaskType::EvmLogicalDigest, "run seidb beside the node"),
];

/// What is known of a name.
#[derive(Clone, Copy, Debug)]
pub enum Known {
    /// This build does it.
    Kind(&'static Kind),
    /// This build does not do it.
    Unsupported(TaskType, &'static str),
}

/// Finds a kind by its name.
#[must_use]
pub fn find(name: &str) -> Option<Known> {
    let task = TaskType::from_name(name)?;
    if let Some(kind) = TABLE.iter().find(|kind| kind.task == task) {
        return Some(Known::Kind(kind));
    }
    let (_, why) = UNSUPPORTED.iter().find(|(unsupported, _)| *unsupported == task)?;
    Some(Known::Unsupported(task, why))
}

/// The refusal of what this build does not do.
#[must_use]
pub fn unsupported(task: TaskType, why: &str) -> String {
    format!("{task} is not supported by this build: {why}")
}

/// A result that only says why nothing was done.
fn skipped(why: &str) -> Outcome {
    Ok(Some(json!({ "skipped": why })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_the_wire_is_done_or_refused_with_a_reason() {
        for task in TaskType::ALL {
            let done = TABLE.iter().filter(|kind| kind.task == *task).count();
            let refused = UNSUPPORTED.iter().filter(|(unsupported, _)| unsupported == task).count();
            assert_eq!(done + refused, 1, "{task}");
        }
    }

    /// S11.
    #[test]
    fn s11_every_task_ends_but_the_loop_whose_rounds_do() {
        for kind in TABLE {
            let endless = kind.limit == Limit::Endless;
            assert_eq!(endless, kind.task == TaskType::SnapshotUpload, "{}", kind.task);
        }
    }

    #[test]
    fn resources_are_taken_in_one_order() {
        for kind in TABLE {
            assert!(
                kind.changes.is_sorted(),
                "{}: two that take them in another order wait for ever",
                kind.task
            );
            assert!(kind.changes.iter().all(|one| (*one as usize) < Resource::COUNT), "{}", kind.task);
        }
    }
}
