//! What becomes of tasks that a process before this one did not end: a pure function of the ledger.

use api::sidecar_wire::TaskType;

use crate::kinds::{self, Kind, Known, mark_ready};
use crate::ledger::{Moment, Task};

/// What becomes of one of them.
#[derive(Debug)]
pub enum Recovery {
    /// It is done again.
    Run(Task, &'static Kind),
    /// It cannot be done, or must not.
    Fail(Task, String),
}

/// Those that must be done to their end before anything else: holds.
#[must_use]
pub fn holds(stranded: &[Task]) -> Vec<Task> {
    stranded.iter().filter(|task| task.kind == TaskType::MarkNotReady.as_str()).cloned().collect()
}

/// Decides about the rest, when the holds are done. The newest hold counts whatever became of it; when it is not known, every
/// release counts as older.
#[must_use]
pub fn rest<E>(stranded: Vec<Task>, newest_hold: &Result<Option<Moment>, E>) -> Vec<Recovery> {
    stranded.into_iter().map(|task| one(task, newest_hold)).collect()
}

fn one<E>(task: Task, newest_hold: &Result<Option<Moment>, E>) -> Recovery {
    let is_held = || match newest_hold {
        Ok(hold) => hold.as_ref().is_some_and(|hold| *hold >= task.submitted_at),
        Err(_) => true,
    };
    match kinds::find(&task.kind) {
        None => {
            let why = format!("no handler registered for task type: {}", task.kind);
            Recovery::Fail(task, why)
        }
        Some(Known::Unsupported(kind, why)) => Recovery::Fail(task, kinds::unsupported(kind, why)),
        Some(Known::Kind(kind)) if kind.task == TaskType::MarkReady && is_held() => {
            Recovery::Fail(task, mark_ready::SUPERSEDED.into())
        }
        Some(Known::Kind(kind)) => Recovery::Run(task, kind),
    }
}

#[cfg(test)]
mod tests {
    use api::sidecar_wire::TaskState;

    use super::*;

    fn task(kind: &str, second: u32) -> Task {
        Task {
            id: format!("{kind}-{second}"),
            kind: kind.into(),
            state: TaskState::Running,
            run: 1,
            params: None,
            result: None,
            error: String::new(),
            submitted_at: at(second),
            completed_at: None,
        }
    }

    fn at(second: u32) -> Moment {
        Moment::read(&format!("2026-05-18T10:00:{second:02}Z")).unwrap()
    }

    fn decided(kind: &str, hold: Result<Option<Moment>, ()>) -> Result<(), String> {
        match rest(vec![task(kind, 5)], &hold).pop().unwrap() {
            Recovery::Run(..) => Ok(()),
            Recovery::Fail(_, why) => Err(why),
        }
    }

    /// HOLD-01 to HOLD-04.
    #[test]
    fn a_stranded_release_is_done_again_only_when_it_is_newer_than_every_hold() {
        assert_eq!(decided("mark-ready", Ok(None)), Ok(()));
        assert_eq!(decided("mark-ready", Ok(Some(at(4)))), Ok(()));
        for hold in [Ok(Some(at(5))), Ok(Some(at(6))), Err(())] {
            assert_eq!(decided("mark-ready", hold.clone()), Err("superseded by hold".into()));
            assert_eq!(decided("mark-not-ready", hold), Ok(()), "only releases are held");
        }
    }

    #[test]
    fn what_cannot_be_done_fails_with_a_reason() {
        assert_eq!(decided("mine", Ok(None)), Err("no handler registered for task type: mine".into()));
        let refused = decided("gov-vote", Ok(None)).unwrap_err();
        assert!(refused.starts_with("gov-vote is not supported by this build"), "{refused}");
    }

    #[test]
    fn holds_come_first() {
        let stranded = [task("mark-ready", 1), task("mark-not-ready", 2), task("reset-data", 3)];
        let holds = holds(&stranded);
        assert_eq!(holds.iter().map(|hold| hold.kind.as_str()).collect::<Vec<_>>(), ["mark-not-ready"]);
    }
}
