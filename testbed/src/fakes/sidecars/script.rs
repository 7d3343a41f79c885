//! What tests make sidecars do. Of the scripts that fit, the newest decides: a rule for all nodes can be overruled for
//! one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::sidecar_wire::{TaskType, path};
use http::{Method, StatusCode};

use super::name::NodeName;
use super::state::Shared;

/// What becomes of a task.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is done at once, as all tasks that nothing was scripted for.
    Complete,
    /// It is done after this time.
    CompleteAfter(Duration),
    /// It runs until [`Sidecar::complete`](super::Sidecar::complete) or [`Sidecar::fail`](super::Sidecar::fail).
    Run,
    /// It fails at once.
    Fail {
        /// Why.
        message: String,
        /// How often on each node, however many tasks that are; then older scripts decide. `None` for always.
        times: Option<u32>,
    },
    /// It is refused with 400 when it is given.
    Reject {
        /// Why.
        message: String,
    },
}

impl Outcome {
    /// Fails so many times on each node, then not any more.
    pub fn fail(times: u32, message: impl Into<String>) -> Self {
        Self::Fail { message: message.into(), times: Some(times) }
    }

    /// Fails always.
    pub fn fail_always(message: impl Into<String>) -> Self {
        Self::Fail { message: message.into(), times: None }
    }

    /// Is refused.
    pub fn reject(message: impl Into<String>) -> Self {
        Self::Reject { message: message.into() }
    }
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// It is done at once, and answered only after this time.
    Late(Duration),
    /// It is done, and the connection is reset instead of an answer.
    LoseAnswer,
    /// It is not done, and answered with this, as by a proxy whose sidecar does not listen (502).
    Answer(StatusCode, String),
    /// It is not done, and answered with 403, except on the paths that need no authorization.
    Forbidden,
    /// It is not done and never answered.
    Hang,
    /// It is not done, and the connection is reset, as if nobody were there.
    Away,
}

/// Which requests trouble comes to.
#[derive(Clone, Debug)]
pub struct Requests {
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

impl Requests {
    /// All requests.
    #[must_use]
    pub fn any() -> Self {
        Self { which: Which::Any, task_type: None, first: None }
    }

    /// Those that give a task.
    #[must_use]
    pub fn submissions() -> Self {
        Self { which: Which::Submissions, ..Self::any() }
    }

    /// Those that ask for one task.
    #[must_use]
    pub fn reads() -> Self {
        Self { which: Which::Reads, ..Self::any() }
    }

    /// Those to one path, such as [`HEALTHZ`](path::HEALTHZ).
    pub fn path(path: impl Into<String>) -> Self {
        Self { which: Which::Path(path.into()), ..Self::any() }
    }

    /// Only those that are about a task of this type.
    #[must_use]
    pub fn of(mut self, task_type: TaskType) -> Self {
        self.task_type = Some(task_type);
        self
    }

    /// Only so many on each node; then older scripts decide.
    #[must_use]
    pub fn first(mut self, count: u32) -> Self {
        self.first = Some(count);
        self
    }

    fn fit(&self, asked: &Asked<'_>) -> bool {
        let fits = match &self.which {
            Which::Any => true,
            Which::Submissions => asked.method == Method::POST && asked.path == path::TASKS,
            Which::Reads => asked.method == Method::GET && task_id(asked.path).is_some(),
            Which::Path(path) => asked.path == path,
        };
        fits && self.task_type.is_none_or(|wanted| asked.task_type == Some(wanted.as_str()))
    }
}

/// The task that a path names.
pub(super) fn task_id(path: &str) -> Option<&str> {
    let id = path.strip_prefix(path::TASKS)?.strip_prefix('/')?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// What scripts know of a request.
pub(super) struct Asked<'a> {
    pub(super) node: &'a NodeName,
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) task_type: Option<&'a str>,
}

/// Something that was scripted. It is in force until it is lifted, also when this handle is dropped.
#[derive(Debug)]
pub struct Script {
    shared: Arc<Shared>,
    id: u64,
    fired: Arc<AtomicU64>,
}

impl Script {
    /// How often it has decided.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::SeqCst)
    }

    /// Takes it out of force. What has been decided stays: a task that runs goes on, a request that hangs hangs.
    pub fn lift(&self) {
        self.shared.with(|world| world.scripts.rules.retain(|rule| rule.id != self.id));
    }
}

#[derive(Debug)]
pub(super) enum Effect {
    /// Of tasks of one type, or of all.
    Task(Option<TaskType>, Outcome),
    Request(Requests, Trouble),
}

#[derive(Debug)]
struct Rule {
    id: u64,
    /// Absent: all nodes.
    node: Option<NodeName>,
    effect: Effect,
    fired: Arc<AtomicU64>,
    fired_on: HashMap<NodeName, u32>,
}

impl Rule {
    /// Whether it decides once more on this node.
    fn take(&mut self, node: &NodeName, times: Option<u32>) -> bool {
        let before = self.fired_on.entry(node.clone()).or_default();
        if times.is_some_and(|times| *before >= times) {
            return false;
        }
        *before += 1;
        self.fired.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn is_for(&self, node: &NodeName) -> bool {
        self.node.as_ref().is_none_or(|own| own == node)
    }
}

/// Everything that was scripted.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    rules: Vec<Rule>,
    last_id: u64,
}

impl Scripts {
    /// Why a task of this type is refused when it is given, if it is.
    pub(super) fn rejection(&mut self, node: &NodeName, task_type: TaskType) -> Option<String> {
        match self.deciding(node, task_type)? {
            (rule, Outcome::Reject { message }) => {
                rule.take(node, None);
                Some(message)
            }
            _ => None,
        }
    }

    /// What becomes of a task of this type that is begun now.
    pub(super) fn outcome(&mut self, node: &NodeName, task_type: TaskType) -> Outcome {
        let Some((rule, outcome)) = self.deciding(node, task_type) else {
            // Uploads go on for as long as the sidecar lives: who waits for their end would wait for ever.
            return if task_type == TaskType::SnapshotUpload { Outcome::Run } else { Outcome::Complete };
        };
        rule.take(node, None);
        outcome
    }

    /// What happens to a request, if anything does.
    pub(super) fn trouble(&mut self, asked: &Asked<'_>) -> Option<Trouble> {
        let mut rules = self.rules.iter_mut().rev().filter(|rule| rule.is_for(asked.node));
        rules.find_map(|rule| {
            let Effect::Request(requests, trouble) = &rule.effect else { return None };
            let (first, trouble) = (requests.first, trouble.clone());
            (requests.fit(asked) && rule.take(asked.node, first)).then_some(trouble)
        })
    }

    fn deciding(&mut self, node: &NodeName, task_type: TaskType) -> Option<(&mut Rule, Outcome)> {
        let mut rules = self.rules.iter_mut().rev().filter(|rule| rule.is_for(node));
        rules.find_map(|rule| {
            let Effect::Task(of, outcome) = &rule.effect else { return None };
            if of.is_some_and(|of| of != task_type) {
                return None;
            }
            let outcome = outcome.clone();
            if let Outcome::Fail { times: Some(times), .. } = outcome
                && rule.fired_on.get(node).is_some_and(|fired| *fired >= times)
            {
                return None;
            }
            Some((rule, outcome))
        })
    }
}

/// Puts something in force, for one node or for all.
pub(super) fn add(shared: &Arc<Shared>, node: Option<NodeName>, effect: Effect) -> Script {
    let fired = Arc::<AtomicU64>::default();
    let id = shared.with(|world| {
        let scripts = &mut world.scripts;
        scripts.last_id += 1;
        let id = scripts.last_id;
        scripts.rules.push(Rule { id, node, effect, fired: fired.clone(), fired_on: HashMap::new() });
        id
    });
    Script { shared: shared.clone(), id, fired }
}
