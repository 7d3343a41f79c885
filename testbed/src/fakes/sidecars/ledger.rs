//! Tasks of one sidecar, which the real one keeps on its volume: they survive a restart, and finished ones also a new pod.

use std::collections::HashMap;

use api::sidecar_wire::{TaskResult, TaskState, TaskType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};

/// Maximum number of listed tasks, as in the real sidecar.
const MAX_LISTED: usize = 100;

/// Result of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The task was started.
    Started {
        /// Attempt, starting at 1.
        run: u32,
    },
    /// The task was already running or completed; nothing happened.
    Duplicate,
}

/// The tasks of one sidecar.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    tasks: HashMap<String, Task>,
    /// Never reset, so that a stale execution cannot end a newer one.
    last_execution: u64,
}

#[derive(Debug)]
struct Task {
    result: TaskResult,
    execution: u64,
}

impl Ledger {
    /// Adds a task. Returns the execution number if the task must be started.
    pub(super) fn submit(
        &mut self,
        id: &str,
        task_type: &str,
        params: Option<Map<String, Value>>,
    ) -> (Submission, Option<u64>) {
        let run = match self.tasks.get(id).map(|task| (task.result.status, task.result.run)) {
            None => 1,
            Some((TaskState::Failed, run)) => run + 1,
            Some((TaskState::Running | TaskState::Completed, _)) => return (Submission::Duplicate, None),
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
        (Submission::Started { run }, Some(execution))
    }

    /// Ends an execution and returns the task type. Ignored if the task was restarted or removed since.
    pub(super) fn finish(&mut self, id: &str, execution: u64, end: Result<(), String>) -> Option<String> {
        let task = self.tasks.get_mut(id).filter(|task| task.execution == execution)?;
        if task.result.status != TaskState::Running {
            return None;
        }
        task.result.status = if end.is_ok() { TaskState::Completed } else { TaskState::Failed };
        task.result.error = end.err();
        task.result.completed_at = Some(now());
        Some(task.result.task_type.clone())
    }

    /// Restarts all running tasks, like a sidecar after a crash: same run, new execution. Returns ID, type and
    /// execution of each.
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

    /// Removes the running tasks that the sidecar of a new pod does not resume: only holds, and endless uploads, are.
    pub(super) fn forget_unfinished(&mut self) {
        let kept = [TaskType::MarkNotReady, TaskType::SnapshotUpload].map(TaskType::as_str);
        self.tasks.retain(|_, Task { result, .. }| {
            result.status != TaskState::Running || kept.contains(&result.task_type.as_str())
        });
    }

    /// Returns ID and execution of all running tasks of a type.
    pub(super) fn running(&self, task_type: &str) -> Vec<(String, u64)> {
        let is_running =
            |task: &&Task| task.result.status == TaskState::Running && task.result.task_type == task_type;
        self.tasks.values().filter(is_running).map(|task| (task.result.id.clone(), task.execution)).collect()
    }

    pub(super) fn get(&self, id: &str) -> Option<&TaskResult> {
        self.tasks.get(id).map(|task| &task.result)
    }

    /// Returns the most recently started tasks, newest first.
    pub(super) fn newest(&self) -> Vec<&TaskResult> {
        let mut all: Vec<&Task> = self.tasks.values().collect();
        all.sort_by_key(|task| std::cmp::Reverse(task.execution));
        all.into_iter().take(MAX_LISTED).map(|task| &task.result).collect()
    }

    /// Removes a task; true if it existed.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        self.tasks.remove(id).is_some()
    }

    /// Removes all tasks of a type.
    pub(super) fn remove_type(&mut self, task_type: &str) {
        self.tasks.retain(|_, task| task.result.task_type != task_type);
    }

    /// Removes all tasks.
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
    fn only_failed_tasks_are_restarted() {
        let mut ledger = Ledger::default();
        let (first, execution) = ledger.submit("a", "config-apply", None);
        assert_eq!(first, Submission::Started { run: 1 });
        assert_eq!(ledger.submit("a", "config-apply", None), (Submission::Duplicate, None));
        assert!(ledger.finish("a", execution.unwrap(), Err("full".into())).is_some());
        assert_eq!(ledger.get("a").unwrap().error.as_deref(), Some("full"));
        let (second, execution) = ledger.submit("a", "config-validate", None);
        assert_eq!(second, Submission::Started { run: 2 });
        let again = ledger.get("a").unwrap();
        assert_eq!((again.task_type.as_str(), again.error.as_deref()), ("config-validate", None));
        assert!(ledger.finish("a", execution.unwrap(), Ok(())).is_some());
        assert_eq!(ledger.submit("a", "config-apply", None), (Submission::Duplicate, None));
        assert_eq!(ledger.get("a").unwrap().task_type, "config-validate");
    }

    #[test]
    fn new_pod_resumes_only_holds_and_uploads() {
        let mut ledger = Ledger::default();
        for task_type in ["config-apply", "mark-ready", "mark-not-ready", "snapshot-upload"] {
            ledger.submit(task_type, task_type, None);
        }
        let (_, execution) = ledger.submit("done", "config-apply", None);
        assert!(ledger.finish("done", execution.unwrap(), Ok(())).is_some());
        ledger.forget_unfinished();
        let mut kept: Vec<_> = ledger.newest().into_iter().map(|task| task.id.as_str()).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["done", "mark-not-ready", "snapshot-upload"]);
    }

    #[test]
    fn stale_execution_ends_nothing() {
        let mut ledger = Ledger::default();
        let (_, stale) = ledger.submit("a", "snapshot-restore", None);
        assert_eq!(ledger.resume().len(), 1);
        assert_eq!(ledger.finish("a", stale.unwrap(), Ok(())), None);
        assert_eq!(ledger.get("a").unwrap().status, TaskState::Running);
        ledger.clear();
        ledger.submit("a", "snapshot-restore", None);
        assert_eq!(ledger.finish("a", stale.unwrap(), Ok(())), None);
    }
}
