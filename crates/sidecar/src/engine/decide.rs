//! Decides whether a submission starts an execution. A pure function of the existing row.

use api::sidecar_wire::TaskState;

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Start this attempt.
    Start {
        /// From 1.
        run: u32,
    },
    /// Nothing: the task is running or completed, whatever the new submission contains.
    Ignore,
}

/// Decides by the state and attempt of the existing row. Clients submit the same task every few seconds: only new and failed tasks
/// start.
#[must_use]
pub fn decide(existing: Option<(TaskState, u32)>) -> Decision {
    match existing {
        None => Decision::Start { run: 1 },
        Some((TaskState::Failed, run)) => Decision::Start { run: run.saturating_add(1) },
        Some((TaskState::Running | TaskState::Completed, _)) => Decision::Ignore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_and_failed_tasks_start() {
        assert_eq!(decide(None), Decision::Start { run: 1 });
        assert_eq!(decide(Some((TaskState::Failed, 3))), Decision::Start { run: 4 });
        assert_eq!(decide(Some((TaskState::Running, 1))), Decision::Ignore);
        assert_eq!(decide(Some((TaskState::Completed, 2))), Decision::Ignore);
    }
}
