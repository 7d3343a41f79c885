//! Recovery of tasks that a previous process did not finish. Pure functions of the ledger.

use api::sidecar_wire::TaskType;

use crate::kinds::{self, Kind, KindLookup, mark_ready};
use crate::ledger::{StoredTime, TaskRow};

/// What to do with a stranded task.
#[derive(Debug)]
pub enum RecoveryAction {
    /// Run it again.
    Restart(TaskRow, &'static Kind),
    /// Store it as failed with this error.
    Fail(TaskRow, String),
}

/// Returns the stranded holds (`mark-not-ready`). They must finish before anything else starts.
#[must_use]
pub fn stranded_holds(stranded: &[TaskRow]) -> Vec<TaskRow> {
    stranded.iter().filter(|task| task.task_type == TaskType::MarkNotReady.as_str()).cloned().collect()
}

/// Decides about the remaining tasks after the holds have finished. The newest hold counts whatever its state; if it is unknown,
/// every release counts as older.
#[must_use]
pub fn plan_recovery<E>(
    stranded: Vec<TaskRow>,
    newest_hold: &Result<Option<StoredTime>, E>,
) -> Vec<RecoveryAction> {
    stranded.into_iter().map(|task| plan_task(task, newest_hold)).collect()
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

    fn task(task_type: &str, second: u32) -> TaskRow {
        TaskRow {
            id: format!("{task_type}-{second}"),
            task_type: task_type.into(),
            state: TaskState::Running,
            run: 1,
            params: None,
            result: None,
            error: String::new(),
            submitted_at: at(second),
            completed_at: None,
        }
    }

    fn at(second: u32) -> StoredTime {
        StoredTime::parse(&format!("2026-05-18T10:00:{second:02}Z")).unwrap()
    }

    fn plan(task_type: &str, hold: Result<Option<StoredTime>, ()>) -> Result<(), String> {
        match plan_recovery(vec![task(task_type, 5)], &hold).pop().unwrap() {
            RecoveryAction::Restart(..) => Ok(()),
            RecoveryAction::Fail(_, error) => Err(error),
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
}
