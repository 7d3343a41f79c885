//! Journal of all requests to the fake sidecars.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use api::sidecar_wire::path;
use http::{Method, StatusCode};

use super::ledger::Submission;
use super::name::NodeName;
use crate::error::Result;
use crate::harness::wait;
use crate::sync::lock;

/// One request that reached the proxy or sidecar of a node. Requests to a node without a pod are not recorded.
#[derive(Clone, Debug)]
pub struct Request {
    /// Time of arrival.
    pub at: SystemTime,
    /// The node that was addressed.
    pub node: NodeName,
    /// Whether it arrived over TLS.
    pub tls: bool,
    /// HTTP method.
    pub method: Method,
    /// Path without query.
    pub path: String,
    /// Type of the task it refers to, if known.
    pub task_type: Option<String>,
    /// ID of the task it refers to.
    pub task_id: Option<String>,
    /// Result of the submission, if a task was accepted.
    pub submission: Option<Submission>,
    /// Response status; `None` while pending, and forever if the request hangs or its connection was reset.
    pub answer: Option<StatusCode>,
}

impl Request {
    /// Whether it submits a task, accepted or not.
    #[must_use]
    pub fn is_submission(&self) -> bool {
        self.method == Method::POST && self.path == path::TASKS
    }
}

/// The journal of all fake sidecars of one server.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Journal {
    /// Returns all recorded requests that match `wanted`.
    pub fn requests(&self, wanted: impl Fn(&Request) -> bool) -> Vec<Request> {
        self.with(|requests| requests.iter().filter(|request| wanted(request)).cloned().collect())
    }

    /// Counts the recorded requests that match `wanted`.
    pub fn count(&self, wanted: impl Fn(&Request) -> bool) -> usize {
        self.with(|requests| requests.iter().filter(|request| wanted(request)).count())
    }

    /// Counts submissions, accepted or not, by node and task ID.
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

    /// Returns submissions of tasks that were already running or completed. An operator that submits each task once
    /// produces none.
    #[must_use]
    pub fn duplicates(&self) -> Vec<Request> {
        self.requests(|request| request.submission == Some(Submission::Duplicate))
    }

    /// Waits for at least `count` matching requests and returns them.
    pub async fn wait_for(
        &self,
        count: usize,
        limit: Duration,
        wanted: impl Fn(&Request) -> bool,
    ) -> Result<Vec<Request>> {
        wait::until(format!("{count} matching requests to sidecars"), limit, || async {
            let found = self.requests(&wanted);
            if found.len() >= count { Ok(found) } else { Err(format!("{} so far", found.len())) }
        })
        .await
    }

    /// Records a new request and returns its index.
    pub(super) fn push(&self, request: Request) -> usize {
        self.with(|requests| {
            requests.push(request);
            requests.len() - 1
        })
    }

    /// Updates a recorded request.
    pub(super) fn update(&self, index: usize, change: impl FnOnce(&mut Request)) {
        self.with(|requests| requests.get_mut(index).map(change));
    }

    fn with<T>(&self, access: impl FnOnce(&mut Vec<Request>) -> T) -> T {
        access(&mut lock(&self.requests))
    }
}
