//! Scripts for task outcomes and request faults. The newest matching script wins, so a script for one node
//! overrides one for all nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::sidecar_wire::{TaskType, path};
use http::{Method, StatusCode};

use super::name::NodeName;
use super::state::Shared;

/// ScriptedOutcome of a task.
#[derive(Clone, Debug)]
pub enum ScriptedOutcome {
    /// Completes at once; the default.
    Complete,
    /// Completes after this time.
    CompleteAfter(Duration),
    /// Runs until [`FakeSidecar::complete`](super::FakeSidecar::complete) or [`FakeSidecar::fail`](super::FakeSidecar::fail).
    Run,
    /// Fails at once.
    Fail {
        /// Error message.
        message: String,
        /// Number of failures per node, across all tasks; after that, older scripts apply. `None` for no limit.
        times: Option<u32>,
    },
    /// Rejected with 400 on submission.
    Reject {
        /// Error message.
        message: String,
    },
}

impl RequestFault {
    /// Not processed; answered with 422 and this error, like a dry-run of a task that would fail.
    pub fn unprocessable(error: impl Into<String>) -> Self {
        let body = serde_json::json!({ "error": error.into() });
        Self::Respond(StatusCode::UNPROCESSABLE_ENTITY, body.to_string())
    }
}

impl ScriptedOutcome {
    /// Fails this many times on each node.
    pub fn fail(times: u32, message: impl Into<String>) -> Self {
        Self::Fail { message: message.into(), times: Some(times) }
    }

    /// Always fails.
    pub fn fail_always(message: impl Into<String>) -> Self {
        Self::Fail { message: message.into(), times: None }
    }

    /// Rejects the submission.
    pub fn reject(message: impl Into<String>) -> Self {
        Self::Reject { message: message.into() }
    }
}

/// Fault of a request.
#[derive(Clone, Debug)]
pub enum RequestFault {
    /// Processed at once, answered after this time.
    DelayResponse(Duration),
    /// Processed, but the connection is reset instead of a response.
    LoseResponse,
    /// Not processed; answered with this status, such as the 502 of a proxy without its sidecar.
    Respond(StatusCode, String),
    /// Not processed; answered with 403, except on paths without authorization.
    Forbidden,
    /// Not processed and never answered.
    Hang,
    /// Not processed; the connection is reset, as if the sidecar were down.
    Reset,
}

/// Selects the requests that a fault applies to.
#[derive(Clone, Debug)]
pub struct RequestFilter {
    which: Which,
    task_type: Option<TaskType>,
    first: Option<u32>,
}

#[derive(Clone, Debug)]
enum Which {
    Any,
    Submissions,
    Reads,
    Path(String),
}

impl RequestFilter {
    /// All requests.
    #[must_use]
    pub fn any() -> Self {
        Self { which: Which::Any, task_type: None, first: None }
    }

    /// Task submissions.
    #[must_use]
    pub fn submissions() -> Self {
        Self { which: Which::Submissions, ..Self::any() }
    }

    /// Reads of a single task.
    #[must_use]
    pub fn reads() -> Self {
        Self { which: Which::Reads, ..Self::any() }
    }

    /// Requests to one path, such as [`HEALTHZ`](path::HEALTHZ).
    pub fn path(path: impl Into<String>) -> Self {
        Self { which: Which::Path(path.into()), ..Self::any() }
    }

    /// Only requests for tasks of this type.
    #[must_use]
    pub fn for_task_type(mut self, task_type: TaskType) -> Self {
        self.task_type = Some(task_type);
        self
    }

    /// Only the first requests on each node; after that, older scripts apply.
    #[must_use]
    pub fn first(mut self, count: u32) -> Self {
        self.first = Some(count);
        self
    }

    fn matches(&self, request: &RequestInfo<'_>) -> bool {
        let matches_kind = match &self.which {
            Which::Any => true,
            Which::Submissions => request.method == Method::POST && request.path == path::TASKS,
            Which::Reads => request.method == Method::GET && task_id(request.path).is_some(),
            Which::Path(path) => request.path == path,
        };
        matches_kind && self.task_type.is_none_or(|task_type| request.task_type == Some(task_type.as_str()))
    }
}

/// Returns the task ID in a path.
pub(super) fn task_id(path: &str) -> Option<&str> {
    let id = path.strip_prefix(path::TASKS)?.strip_prefix('/')?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// What scripts match on.
pub(super) struct RequestInfo<'a> {
    pub(super) node: &'a NodeName,
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) task_type: Option<&'a str>,
}

/// A script in force. It stays in force until [`remove`](Self::remove), even if this handle is dropped.
#[derive(Debug)]
pub struct ScriptHandle {
    shared: Arc<Shared>,
    id: u64,
    fired: Arc<AtomicU64>,
}

impl ScriptHandle {
    /// Returns how often the script was applied.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::SeqCst)
    }

    /// Removes the script. Earlier decisions stay: running tasks keep running, hanging requests keep hanging.
    pub fn remove(&self) {
        self.shared.with(|state| state.scripts.rules.retain(|rule| rule.id != self.id));
    }
}

#[derive(Debug)]
pub(super) enum Effect {
    /// For tasks of one type, or of all types.
    Task(Option<TaskType>, ScriptedOutcome),
    Request(RequestFilter, RequestFault),
}

#[derive(Debug)]
struct Rule {
    id: u64,
    /// `None` for all nodes.
    node: Option<NodeName>,
    effect: Effect,
    fired: Arc<AtomicU64>,
    fired_on: HashMap<NodeName, u32>,
}

impl Rule {
    /// Counts an application on this node, unless the limit is reached.
    fn try_apply(&mut self, node: &NodeName, times: Option<u32>) -> bool {
        let count = self.fired_on.entry(node.clone()).or_default();
        if times.is_some_and(|times| *count >= times) {
            return false;
        }
        *count += 1;
        self.fired.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn is_for(&self, node: &NodeName) -> bool {
        self.node.as_ref().is_none_or(|own| own == node)
    }
}

/// All scripts in force.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    rules: Vec<Rule>,
    last_id: u64,
}

impl Scripts {
    /// Returns the error message if a submission of this type is rejected.
    pub(super) fn rejection(&mut self, node: &NodeName, task_type: TaskType) -> Option<String> {
        match self.matching_rule(node, task_type)? {
            (rule, ScriptedOutcome::Reject { message }) => {
                rule.try_apply(node, None);
                Some(message)
            }
            _ => None,
        }
    }

    /// Returns the outcome of a task of this type that starts now.
    pub(super) fn outcome(&mut self, node: &NodeName, task_type: TaskType) -> ScriptedOutcome {
        let Some((rule, outcome)) = self.matching_rule(node, task_type) else {
            // Uploads run as long as the sidecar does; a client that waits for their end must hang here, too.
            return if task_type == TaskType::SnapshotUpload {
                ScriptedOutcome::Run
            } else {
                ScriptedOutcome::Complete
            };
        };
        rule.try_apply(node, None);
        outcome
    }

    /// Returns the fault of a request.
    pub(super) fn request_fault(&mut self, request: &RequestInfo<'_>) -> Option<RequestFault> {
        let mut rules = self.rules.iter_mut().rev().filter(|rule| rule.is_for(request.node));
        rules.find_map(|rule| {
            let Effect::Request(requests, fault) = &rule.effect else { return None };
            let (first, fault) = (requests.first, fault.clone());
            (requests.matches(request) && rule.try_apply(request.node, first)).then_some(fault)
        })
    }

    fn matching_rule(
        &mut self,
        node: &NodeName,
        task_type: TaskType,
    ) -> Option<(&mut Rule, ScriptedOutcome)> {
        let mut rules = self.rules.iter_mut().rev().filter(|rule| rule.is_for(node));
        rules.find_map(|rule| {
            let Effect::Task(wanted, outcome) = &rule.effect else { return None };
            if wanted.is_some_and(|wanted| wanted != task_type) {
                return None;
            }
            let outcome = outcome.clone();
            if let ScriptedOutcome::Fail { times: Some(times), .. } = outcome
                && rule.fired_on.get(node).is_some_and(|fired| *fired >= times)
            {
                return None;
            }
            Some((rule, outcome))
        })
    }
}

/// Adds a script for one node or for all.
pub(super) fn add(shared: &Arc<Shared>, node: Option<NodeName>, effect: Effect) -> ScriptHandle {
    let fired = Arc::<AtomicU64>::default();
    let id = shared.with(|state| {
        let scripts = &mut state.scripts;
        scripts.last_id += 1;
        let id = scripts.last_id;
        scripts.rules.push(Rule { id, node, effect, fired: fired.clone(), fired_on: HashMap::new() });
        id
    });
    ScriptHandle { shared: shared.clone(), id, fired }
}
