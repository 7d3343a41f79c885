//! What becomes of a task that is given: a pure function of the row that is there.

use api::sidecar_wire::TaskState;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Begin it, as this attempt.
    Begin {
        /// From 1.
        run: u32,
    },
    /// Nothing: it runs or is done, whatever it was given with this time.
    Repeat,
}

/// Decides by the state and the attempt of the row with this id, if there is one. Clients give the same task every few seconds:
/// only what failed is begun again.
#[must_use]
pub fn decide(there: Option<(TaskState, u32)>) -> Decision {
    match there {
        None => Decision::Begin { run: 1 },
        Some((TaskState::Failed, run)) => Decision::Begin { run: run.saturating_add(1) },
        Some((TaskState::Running | TaskState::Completed, _)) => Decision::Repeat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_or_failed_is_begun() {
        assert_eq!(decide(None), Decision::Begin { run: 1 });
        assert_eq!(decide(Some((TaskState::Failed, 3))), Decision::Begin { run: 4 });
        assert_eq!(decide(Some((TaskState::Running, 1))), Decision::Repeat);
        assert_eq!(decide(Some((TaskState::Completed, 2))), Decision::Repeat);
    }
}
