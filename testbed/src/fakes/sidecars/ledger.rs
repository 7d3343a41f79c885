//! The tasks that one sidecar knows of, which it keeps on its volume: they outlive the process.

use std::collections::HashMap;

use api::sidecar_wire::{TaskResult, TaskState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};

/// As many as the sidecar lists.
const LISTED: usize = 100;

/// What a submission came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The task was begun, for the given time (from 1).
    Begun {
        /// Which attempt it is.
        run: u32,
    },
    /// The task runs or is done already, and nothing happened.
    Repeated,
}

/// The ledger of one sidecar.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    tasks: HashMap<String, Task>,
    /// Never begins anew, so that what is left of a forgotten execution ends nothing.
    last_execution: u64,
}

#[derive(Debug)]
struct Task {
    result: TaskResult,
    execution: u64,
}

impl Ledger {
    /// Enters a task. The number of its execution is returned if it is to be begun.
    pub(super) fn enter(
        &mut self,
        id: &str,
        task_type: &str,
        params: Option<Map<String, Value>>,
    ) -> (Submission, Option<u64>) {
        let run = match self.tasks.get(id).map(|task| (task.result.status, task.result.run)) {
            None => 1,
            Some((TaskState::Failed, run)) => run + 1,
            Some((TaskState::Running | TaskState::Completed, _)) => return (Submission::Repeated, None),
        };
        let result = TaskResult {
            id: id.to_owned(),
            task_type: task_type.to_owned(),
            status: TaskState::Running,
            run,
            params: params.filter(|params| !params.is_empty()),
            result: None,
            error: None,
            submitted_at: now(),
            completed_at: None,
        };
        let execution = self.next_execution();
        self.tasks.insert(id.to_owned(), Task { result, execution });
        (Submission::Begun { run }, Some(execution))
    }

    /// Ends an execution, and tells the task's type. Nothing happens if the task has been begun anew or forgotten since.
    pub(super) fn end(&mut self, id: &str, execution: u64, end: Result<(), String>) -> Option<String> {
        let task = self.tasks.get_mut(id).filter(|task| task.execution == execution)?;
        if task.result.status != TaskState::Running {
            return None;
        }
        task.result.status = if end.is_ok() { TaskState::Completed } else { TaskState::Failed };
        task.result.error = end.err();
        task.result.completed_at = Some(now());
        Some(task.result.task_type.clone())
    }

    /// Begins everything anew that runs, as a sidecar does that has been killed: same run, another execution. Returns
    /// id, type and execution of each.
    pub(super) fn resume(&mut self) -> Vec<(String, String, u64)> {
        let mut resumed = Vec::new();
        for (id, task) in &mut self.tasks {
            if task.result.status == TaskState::Running {
                self.last_execution += 1;
                task.execution = self.last_execution;
                resumed.push((id.clone(), task.result.task_type.clone(), task.execution));
            }
        }
        resumed
    }

    /// Id and execution of every task of a type that runs.
    pub(super) fn running(&self, task_type: &str) -> Vec<(String, u64)> {
        let runs =
            |task: &&Task| task.result.status == TaskState::Running && task.result.task_type == task_type;
        self.tasks.values().filter(runs).map(|task| (task.result.id.clone(), task.execution)).collect()
    }

    pub(super) fn get(&self, id: &str) -> Option<&TaskResult> {
        self.tasks.get(id).map(|task| &task.result)
    }

    /// Those that were last begun, the newest first.
    pub(super) fn newest(&self) -> Vec<&TaskResult> {
        let mut all: Vec<&Task> = self.tasks.values().collect();
        all.sort_by_key(|task| std::cmp::Reverse(task.execution));
        all.into_iter().take(LISTED).map(|task| &task.result).collect()
    }

    /// Forgets a task; true if it was known.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        self.tasks.remove(id).is_some()
    }

    /// Forgets every task of a type.
    pub(super) fn remove_type(&mut self, task_type: &str) {
        self.tasks.retain(|_, task| task.result.task_type != task_type);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.tasks.clear();
    }

    fn next_execution(&mut self) -> u64 {
        self.last_execution += 1;
        self.last_execution
    }
}

fn now() -> MicroTime {
    MicroTime(Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_failed_is_begun_again() {
        let mut ledger = Ledger::default();
        let (first, execution) = ledger.enter("a", "config-apply", None);
        assert_eq!(first, Submission::Begun { run: 1 });
        assert_eq!(ledger.enter("a", "config-apply", None), (Submission::Repeated, None));
        assert!(ledger.end("a", execution.unwrap(), Err("full".into())).is_some());
        assert_eq!(ledger.get("a").unwrap().error.as_deref(), Some("full"));
        let (second, execution) = ledger.enter("a", "config-validate", None);
        assert_eq!(second, Submission::Begun { run: 2 });
        let again = ledger.get("a").unwrap();
        assert_eq!((again.task_type.as_str(), again.error.as_deref()), ("config-validate", None));
        assert!(ledger.end("a", execution.unwrap(), Ok(())).is_some());
        assert_eq!(ledger.enter("a", "config-apply", None), (Submission::Repeated, None));
        assert_eq!(ledger.get("a").unwrap().task_type, "config-validate");
    }

    #[test]
    fn what_is_left_of_a_forgotten_execution_ends_nothing() {
        let mut ledger = Ledger::default();
        let (_, before) = ledger.enter("a", "snapshot-restore", None);
        assert_eq!(ledger.resume().len(), 1);
        assert_eq!(ledger.end("a", before.unwrap(), Ok(())), None);
        assert_eq!(ledger.get("a").unwrap().status, TaskState::Running);
        ledger.clear();
        ledger.enter("a", "snapshot-restore", None);
        assert_eq!(ledger.end("a", before.unwrap(), Ok(())), None);
    }
}
