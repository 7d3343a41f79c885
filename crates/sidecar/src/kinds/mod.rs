//! Task kinds: one file each, listed in [`KINDS`].

mod await_condition;
mod ceremony;
mod config;
mod configure_genesis;
mod configure_state_sync;
mod context;
mod discover_peers;
mod mark_not_ready;
pub mod mark_ready;
mod reset_data;
mod restart_seid;
mod result_export;
mod set_genesis_peers;
mod snapshot;
mod stop_seid;

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use api::sidecar_wire::TaskType;
use serde_json::json;
use serde_json::value::RawValue;

use self::context::parse_params;
pub use self::context::{TaskContext, TaskError, TaskOutcome};
pub use self::snapshot::pruner::run_child as run_snapshot_metadata_pruner;
pub use crate::node::Resource;

/// The deadline of a task, counted from when it holds its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// A fixed time.
    After(Duration),
    /// The value of `--snapshot-upload-timeout`.
    UploadTimeout,
    /// No deadline: the task is a loop, and each iteration has a timeout.
    Never,
}

/// A task kind.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The type on the wire.
    pub task_type: TaskType,
    /// The resources it locks, in the order of [`Resource`].
    pub locks: &'static [Resource],
    /// How long it may run.
    pub deadline: Deadline,
    /// Whether it mostly waits: it does not count toward `--max-working-tasks`.
    pub mostly_waits: bool,
    /// Runs the task.
    pub run: fn(TaskContext) -> TaskFuture,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.task_type).finish()
    }
}

/// A running task.
pub type TaskFuture = Pin<Box<dyn Future<Output = TaskOutcome> + Send>>;

/// Every supported kind.
pub const KINDS: &[Kind] = &[
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

/// Kinds that are rejected at submission, and what to use instead.
pub const UNSUPPORTED: &[(TaskType, &str)] = &[
    (TaskType::GovVote, "sign and broadcast it with seid"),
    (TaskType::GovSoftwareUpgrade, "sign and broadcast it with seid"),
    (TaskType::GovParamChange, "sign and broadcast it with seid"),
    (TaskType::EvmLogicalDigest, "run seidb beside the node"),
];

/// Checks the parameters of a task against the files in the home, and changes nothing. It blocks.
pub type DryRun = fn(&Path, Option<&RawValue>) -> Result<(), TaskError>;

/// Kinds with a dry-run, which holds the same locks as the task.
pub const DRY_RUNS: &[(TaskType, DryRun)] = &[(TaskType::ConfigApply, config::apply::dry_run)];

/// The result of [`find`].
#[derive(Clone, Copy, Debug)]
pub enum KindLookup {
    /// The kind is supported.
    Supported(&'static Kind),
    /// The kind is known but not supported; the text says what to use instead.
    Unsupported(TaskType, &'static str),
}

/// Looks up a kind by its name on the wire.
#[must_use]
pub fn find(name: &str) -> Option<KindLookup> {
    let task_type = TaskType::from_name(name)?;
    if let Some(kind) = KINDS.iter().find(|kind| kind.task_type == task_type) {
        return Some(KindLookup::Supported(kind));
    }
    let (_, alternative) = UNSUPPORTED.iter().find(|(unsupported, _)| *unsupported == task_type)?;
    Some(KindLookup::Unsupported(task_type, alternative))
}

/// Looks up a kind that can be executed, or returns the error for its type.
pub fn find_supported(name: &str) -> Result<&'static Kind, String> {
    match find(name) {
        Some(KindLookup::Supported(kind)) => Ok(kind),
        Some(KindLookup::Unsupported(task_type, alternative)) => {
            Err(unsupported_message(task_type, alternative))
        }
        None => Err(format!("unknown task type: {name}")),
    }
}

/// Returns the dry-run of a kind, if it has one.
#[must_use]
pub fn find_dry_run(task_type: TaskType) -> Option<DryRun> {
    DRY_RUNS.iter().find(|(kind, _)| *kind == task_type).map(|(_, dry_run)| *dry_run)
}

/// Returns the error for an unsupported kind.
#[must_use]
pub fn unsupported_message(task_type: TaskType, alternative: &str) -> String {
    format!("{task_type} is not supported by this build: {alternative}")
}

/// A result that only states why there was nothing to do.
fn skipped(reason: &str) -> TaskOutcome {
    Ok(Some(json!({ "skipped": reason })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_type_is_supported_or_rejected_with_a_reason() {
        for task in TaskType::ALL {
            let supported = KINDS.iter().filter(|kind| kind.task_type == *task).count();
            let rejected = UNSUPPORTED.iter().filter(|(unsupported, _)| unsupported == task).count();
            assert_eq!(supported + rejected, 1, "{task}");
        }
    }

    #[test]
    fn only_the_snapshot_upload_loop_has_no_deadline() {
        for kind in KINDS {
            let is_endless = kind.deadline == Deadline::Never;
            assert_eq!(is_endless, kind.task_type == TaskType::SnapshotUpload, "{}", kind.task_type);
        }
    }

    #[test]
    fn kinds_list_their_locks_in_resource_order() {
        for kind in KINDS {
            assert!(
                kind.locks.is_sorted(),
                "{}: a different lock order can deadlock two tasks",
                kind.task_type
            );
            assert!(
                kind.locks.iter().all(|resource| (*resource as usize) < Resource::COUNT),
                "{}",
                kind.task_type
            );
        }
    }
}
