//! What sidecars were asked: every request, in its order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use api::sidecar_wire::path;
use http::{Method, StatusCode};

use super::ledger::Submission;
use super::name::NodeName;
use crate::error::Result;
use crate::harness::wait;

/// One request that a node's proxy or sidecar got. Those that reach nobody are not in the journal: a node without a pod
/// keeps none.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it came.
    pub at: SystemTime,
    /// Whom it was for.
    pub node: NodeName,
    /// Whether it came by TLS.
    pub tls: bool,
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// The type of the task that it is about, where that is known.
    pub task_type: Option<String>,
    /// The id of the task that it is about.
    pub task_id: Option<String>,
    /// What it came to, if it gave a task that was taken.
    pub submission: Option<Submission>,
    /// The answer; `None` while there is none, and for ever if it hangs or its connection was reset.
    pub answer: Option<StatusCode>,
}

impl Request {
    /// Whether it gave a task, taken or not.
    #[must_use]
    pub fn is_submission(&self) -> bool {
        self.method == Method::POST && self.path == path::TASKS
    }
}

/// The journal of all sidecars of one server.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Journal {
    /// Every request so far that `wanted` accepts.
    pub fn requests(&self, wanted: impl Fn(&Request) -> bool) -> Vec<Request> {
        self.with(|requests| requests.iter().filter(|request| wanted(request)).cloned().collect())
    }

    /// How many requests so far `wanted` accepts.
    pub fn count(&self, wanted: impl Fn(&Request) -> bool) -> usize {
        self.with(|requests| requests.iter().filter(|request| wanted(request)).count())
    }

    /// How often each task was given, taken or not, by node and id.
    #[must_use]
    pub fn submissions(&self) -> BTreeMap<(NodeName, String), usize> {
        let mut counts = BTreeMap::new();
        self.with(|requests| {
            for request in requests.iter().filter(|request| request.is_submission()) {
                let id = request.task_id.clone().unwrap_or_default();
                *counts.entry((request.node.clone(), id)).or_default() += 1;
            }
        });
        counts
    }

    /// Submissions of tasks that ran or were done already: what an operator that gives each task once never sends.
    #[must_use]
    pub fn repeats(&self) -> Vec<Request> {
        self.requests(|request| request.submission == Some(Submission::Repeated))
    }

    /// Waits until there are at least `count` such requests, and returns them.
    pub async fn wait_for(
        &self,
        count: usize,
        limit: Duration,
        wanted: impl Fn(&Request) -> bool,
    ) -> Result<Vec<Request>> {
        wait::until(format!("{count} such requests to sidecars"), limit, || async {
            let found = self.requests(&wanted);
            if found.len() >= count { Ok(found) } else { Err(format!("{} so far", found.len())) }
        })
        .await
    }

    /// Writes down a request that has just come, and returns where it stands.
    pub(super) fn push(&self, request: Request) -> usize {
        self.with(|requests| {
            requests.push(request);
            requests.len() - 1
        })
    }

    /// Writes down what became of a request.
    pub(super) fn amend(&self, place: usize, change: impl FnOnce(&mut Request)) {
        self.with(|requests| requests.get_mut(place).map(change));
    }

    fn with<T>(&self, access: impl FnOnce(&mut Vec<Request>) -> T) -> T {
        access(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
