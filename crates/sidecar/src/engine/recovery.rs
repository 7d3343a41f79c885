//! Recovery of tasks that a previous process did not finish. Pure functions of the ledger.

use api::sidecar_wire::TaskType;

use crate::kinds::{self, Kind, KindLookup, mark_ready};
use crate::ledger::{StoredTime, TaskRow, UnfinishedTask};

/// What to do with a stranded task.
#[derive(Debug)]
pub enum RecoveryAction {
    /// Run it again.
    Restart(TaskRow, &'static Kind),
    /// Store it as failed with this error.
    Fail(TaskRow, String),
    /// Delete it: clients submit a task that does not exist again.
    Forget(TaskRow),
}

/// Returns the stranded holds (`mark-not-ready`), which must finish before anything else starts. Also those that this sidecar has not
/// accepted: a hold that is lost is worse than one that was not submitted.
#[must_use]
pub fn stranded_holds(stranded: &[UnfinishedTask]) -> Vec<TaskRow> {
    let rows = stranded.iter().map(|task| &task.row);
    rows.filter(|row| row.task_type == TaskType::MarkNotReady.as_str()).cloned().collect()
}

/// Decides about the remaining tasks after the holds have finished. The newest hold counts whatever its state; if it is unknown,
/// every release counts as older. A task that this sidecar has not accepted was accepted in a previous pod, or written into the ledger
/// by seid, and is not restarted. Uploads of snapshots have no other client that would submit them again, so one of them is
/// restarted if the node publishes snapshots.
#[must_use]
pub fn plan_recovery<E>(
    stranded: Vec<UnfinishedTask>,
    newest_hold: &Result<Option<StoredTime>, E>,
    publishes_snapshots: bool,
) -> Vec<RecoveryAction> {
    let is_upload = |task: &UnfinishedTask| task.row.task_type == TaskType::SnapshotUpload.as_str();
    let has_upload = stranded.iter().any(|task| is_upload(task) && task.is_accepted);
    let mut restarts_upload = publishes_snapshots && !has_upload;
    let plan = |task: UnfinishedTask| {
        if task.is_accepted || is_upload(&task) && std::mem::take(&mut restarts_upload) {
            plan_task(task.row, newest_hold)
        } else {
            RecoveryAction::Forget(task.row)
        }
    };
    stranded.into_iter().map(plan).collect()
}

fn plan_task<E>(task: TaskRow, newest_hold: &Result<Option<StoredTime>, E>) -> RecoveryAction {
    let is_superseded = || match newest_hold {
        Ok(hold) => hold.as_ref().is_some_and(|hold| *hold >= task.submitted_at),
        Err(_) => true,
    };
    match kinds::find(&task.task_type) {
        None => {
            let error = format!("no handler registered for task type: {}", task.task_type);
            RecoveryAction::Fail(task, error)
        }
        Some(KindLookup::Unsupported(task_type, alternative)) => {
            RecoveryAction::Fail(task, kinds::unsupported_message(task_type, alternative))
        }
        Some(KindLookup::Supported(kind)) if kind.task_type == TaskType::MarkReady && is_superseded() => {
            RecoveryAction::Fail(task, mark_ready::SUPERSEDED.into())
        }
        Some(KindLookup::Supported(kind)) => RecoveryAction::Restart(task, kind),
    }
}

#[cfg(test)]
mod tests {
    use api::sidecar_wire::TaskState;

    use super::*;

    fn task(task_type: &str, second: u32) -> UnfinishedTask {
        let row = TaskRow {
            id: format!("{task_type}-{second}"),
            task_type: task_type.into(),
            state: TaskState::Running,
            run: 1,
            params: None,
            result: None,
            error: String::new(),
            submitted_at: at(second),
            completed_at: None,
        };
        UnfinishedTask { row, is_accepted: true }
    }

    fn at(second: u32) -> StoredTime {
        StoredTime::parse(&format!("2026-05-18T10:00:{second:02}Z")).unwrap()
    }

    fn plan(task_type: &str, hold: Result<Option<StoredTime>, ()>) -> Result<(), String> {
        match plan_recovery(vec![task(task_type, 5)], &hold, false).pop().unwrap() {
            RecoveryAction::Restart(..) => Ok(()),
            RecoveryAction::Fail(_, error) => Err(error),
            RecoveryAction::Forget(task) => Err(format!("forgot {}", task.id)),
        }
    }

    #[test]
    fn stranded_release_restarts_only_if_newer_than_every_hold() {
        assert_eq!(plan("mark-ready", Ok(None)), Ok(()));
        assert_eq!(plan("mark-ready", Ok(Some(at(4)))), Ok(()));
        for hold in [Ok(Some(at(5))), Ok(Some(at(6))), Err(())] {
            assert_eq!(plan("mark-ready", hold.clone()), Err("superseded by hold".into()));
            assert_eq!(plan("mark-not-ready", hold), Ok(()), "holds are never superseded");
        }
    }

    #[test]
    fn unknown_and_unsupported_types_fail() {
        assert_eq!(plan("mine", Ok(None)), Err("no handler registered for task type: mine".into()));
        let error = plan("gov-vote", Ok(None)).unwrap_err();
        assert!(error.starts_with("gov-vote is not supported by this build"), "{error}");
    }

    #[test]
    fn stranded_holds_returns_only_holds() {
        let stranded = [task("mark-ready", 1), task("mark-not-ready", 2), task("reset-data", 3)];
        let holds = stranded_holds(&stranded);
        assert_eq!(holds.iter().map(|hold| hold.task_type.as_str()).collect::<Vec<_>>(), ["mark-not-ready"]);
    }

    /// Returns the types and seconds of the restarted tasks; all others must be forgotten.
    fn restarted(stranded: Vec<UnfinishedTask>, publishes_snapshots: bool) -> Vec<String> {
        let plan = plan_recovery(stranded, &Ok::<_, ()>(None), publishes_snapshots);
        let restarted = plan.into_iter().filter_map(|action| match action {
            RecoveryAction::Restart(task, _) => Some(task.id),
            RecoveryAction::Forget(_) => None,
            RecoveryAction::Fail(task, error) => panic!("{}: {error}", task.id),
        });
        restarted.collect()
    }

    #[test]
    fn only_accepted_tasks_restart() {
        let forged = |name: &str, second| UnfinishedTask { is_accepted: false, ..task(name, second) };
        for task_type in TaskType::ALL {
            for publishes in [false, true] {
                let is_restarted = publishes && *task_type == TaskType::SnapshotUpload;
                let restarted = restarted(vec![forged(task_type.as_str(), 1)], publishes);
                assert_eq!(restarted.len(), usize::from(is_restarted), "{task_type} {publishes}");
            }
        }
        let mixed = || vec![forged("config-apply", 1), task("config-apply", 2), forged("no-such-task", 3)];
        assert_eq!(restarted(mixed(), true), ["config-apply-2"]);
    }

    #[test]
    fn publishing_node_restarts_one_upload() {
        let previous = |second| UnfinishedTask { is_accepted: false, ..task("snapshot-upload", second) };
        assert_eq!(restarted(vec![previous(1), previous(2)], true), ["snapshot-upload-1"]);
        assert_eq!(restarted(vec![previous(1), task("snapshot-upload", 2)], true), ["snapshot-upload-2"]);
        assert_eq!(restarted(vec![previous(1), task("snapshot-upload", 2)], false), ["snapshot-upload-2"]);
    }
}
