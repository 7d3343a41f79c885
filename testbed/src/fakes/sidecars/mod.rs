//! Scripted fake sidecars: one server on one port acts as the sidecar, behind its proxy, of every node.
//!
//! The host name of a request (with TLS, also the server name) selects the node, so the process under test must keep
//! it and dial [`FakeSidecars::address`] instead. Responses are those of the real sidecar; outcomes of tasks and faults of
//! requests are scripted while the test runs, for one node or for all.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use api::sidecar_wire::{TaskType, path};
//! # use testbed::fakes::sidecars::{ScriptedOutcome, RequestFilter, FakeSidecars, RequestFault};
//! # async fn example() -> testbed::Result<()> {
//! let sidecars = FakeSidecars::start().await?;
//! let node = sidecars.node("sei", "full-0");
//! node.on_task(TaskType::ConfigApply, ScriptedOutcome::fail(2, "no space left on device"));
//! let slow = sidecars.on_request(RequestFilter::path(path::HEALTHZ), RequestFault::DelayResponse(Duration::from_secs(25)));
//! // ... let the operator work with --sidecar-address-template=ADDRESS ...
//! node.wait_submitted(TaskType::MarkReady, Duration::from_secs(30)).await?;
//! slow.remove();
//! assert!(sidecars.journal().duplicates().is_empty(), "a task was submitted twice");
//! # Ok(()) }
//! ```
//!
//! With a [`FakeKubelet`](crate::fakes::kubelet::FakeKubelet), sidecars start and stop with their pods. Without
//! one, every node has a sidecar that serves plain HTTP.

mod connection;
mod exchange;
mod journal;
mod ledger;
mod name;
mod params;
mod script;
mod state;
mod transport;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::sidecar_wire::{TaskResult, TaskType};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use self::journal::{Journal, Request};
pub use self::ledger::Submission;
pub use self::name::NodeName;
pub use self::script::{RequestFault, RequestFilter, ScriptHandle, ScriptedOutcome};
pub(crate) use self::state::Shared;
pub(crate) use self::transport::Transport;

use self::script::Effect;
use crate::cluster::pki::Identity;
use crate::error::{IoContext, Result};
use crate::harness::wait;

/// A running server; it stops when dropped and closes all connections.
#[derive(Debug)]
pub struct FakeSidecars {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl FakeSidecars {
    /// Starts the sidecars of all nodes on a free loopback port.
    pub async fn start() -> Result<Self> {
        let listening = || "listening on loopback for fake sidecars".to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context(listening)?;
        let address = listener.local_addr().context(listening)?;
        let shared = Shared::new();
        let server = tokio::spawn(connection::serve(listener, shared.clone()));
        Ok(Self { address, shared, server })
    }

    /// Address to dial instead of the address of any node.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the sidecar of one node.
    pub fn node(&self, namespace: impl Into<String>, name: impl Into<String>) -> FakeSidecar {
        FakeSidecar { shared: self.shared.clone(), name: NodeName::new(namespace, name) }
    }

    /// Accepts only these bearer tokens. Before the first call, any token is accepted.
    pub fn accept_tokens<T: Into<String>>(&self, tokens: impl IntoIterator<Item = T>) {
        self.shared.with(|state| state.tokens = tokens.into_iter().map(Into::into).collect());
    }

    /// Scripts the outcome of tasks of one type on all nodes.
    pub fn on_task(&self, task_type: TaskType, outcome: ScriptedOutcome) -> ScriptHandle {
        script::add(&self.shared, None, Effect::Task(Some(task_type), outcome))
    }

    /// Scripts the outcome of all tasks on all nodes.
    pub fn on_any_task(&self, outcome: ScriptedOutcome) -> ScriptHandle {
        script::add(&self.shared, None, Effect::Task(None, outcome))
    }

    /// Scripts a fault for requests to all nodes.
    pub fn on_request(&self, requests: RequestFilter, fault: RequestFault) -> ScriptHandle {
        script::add(&self.shared, None, Effect::Request(requests, fault))
    }

    /// Returns the journal of all requests.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for FakeSidecars {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The fake sidecar of one node.
#[derive(Clone, Debug)]
pub struct FakeSidecar {
    shared: Arc<Shared>,
    name: NodeName,
}

impl FakeSidecar {
    /// Returns the node name.
    #[must_use]
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// Returns the P2P node ID.
    #[must_use]
    pub fn node_id(&self) -> String {
        exchange::node_id(&self.name)
    }

    /// Scripts the outcome of tasks of one type.
    pub fn on_task(&self, task_type: TaskType, outcome: ScriptedOutcome) -> ScriptHandle {
        script::add(&self.shared, Some(self.name.clone()), Effect::Task(Some(task_type), outcome))
    }

    /// Scripts the outcome of all tasks.
    pub fn on_any_task(&self, outcome: ScriptedOutcome) -> ScriptHandle {
        script::add(&self.shared, Some(self.name.clone()), Effect::Task(None, outcome))
    }

    /// Scripts a fault for requests.
    pub fn on_request(&self, requests: RequestFilter, fault: RequestFault) -> ScriptHandle {
        script::add(&self.shared, Some(self.name.clone()), Effect::Request(requests, fault))
    }

    /// Completes the running tasks of a type and returns their number.
    pub fn complete(&self, task_type: TaskType) -> usize {
        self.shared.finish_running(&self.name, task_type, &Ok(()))
    }

    /// Fails the running tasks of a type and returns their number.
    pub fn fail(&self, task_type: TaskType, message: impl Into<String>) -> usize {
        self.shared.finish_running(&self.name, task_type, &Err(message.into()))
    }

    /// Restarts the sidecar in its pod: connections are reset, readiness is lost, and running tasks start over.
    pub fn restart(&self) {
        self.shared.restart(&self.name);
    }

    /// Removes all tasks, as with a new volume. Running tasks never end.
    pub fn clear_tasks(&self) {
        self.shared.with(|state| state.node(&self.name).ledger.clear());
    }

    /// Serves plain HTTP from now on. With a fake kubelet, the pod spec decides.
    pub fn serve_plain(&self) {
        self.shared.set_transport(&self.name, Transport::Plain);
    }

    /// Serves TLS with this certificate from now on. With a fake kubelet, the pod spec decides.
    pub fn serve_tls(&self, identity: &Identity) -> Result<()> {
        self.shared.set_transport(&self.name, Transport::tls(identity)?);
        Ok(())
    }

    /// Whether the sidecar reports ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.with(|state| state.node(&self.name).ready)
    }

    /// Returns the number of restarts; with a fake kubelet, each new pod counts.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.shared.with(|state| state.node(&self.name).restarts)
    }

    /// Returns the listed tasks, newest first.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskResult> {
        self.shared.with(|state| state.node(&self.name).ledger.newest().into_iter().cloned().collect())
    }

    /// Waits until a task of this type was submitted, accepted or not, and returns the first such request.
    pub async fn wait_submitted(&self, task_type: TaskType, limit: Duration) -> Result<Request> {
        self.wait_request(&format!("a {task_type} for {}", self.name), limit, |request| {
            request.task_type.as_deref() == Some(task_type.as_str())
        })
        .await
    }

    /// Waits until the task with this ID was submitted, accepted or not, and returns the first such request.
    pub async fn wait_submitted_id(&self, id: &str, limit: Duration) -> Result<Request> {
        self.wait_request(&format!("task {id} for {}", self.name), limit, |request| {
            request.task_id.as_deref() == Some(id)
        })
        .await
    }

    /// Waits until the sidecar reports ready.
    pub async fn wait_ready(&self, limit: Duration) -> Result<()> {
        wait::until(format!("readiness of the sidecar of {}", self.name), limit, || async {
            if self.is_ready() { Ok(()) } else { Err(format!("tasks: {:?}", self.tasks())) }
        })
        .await
    }

    async fn wait_request(
        &self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&Request) -> bool,
    ) -> Result<Request> {
        wait::until(what, limit, || async {
            let found = self
                .shared
                .journal
                .requests(|request| request.node == self.name && request.is_submission() && wanted(request));
            found.into_iter().next().ok_or_else(|| format!("tasks: {:?}", self.tasks()))
        })
        .await
    }
}
