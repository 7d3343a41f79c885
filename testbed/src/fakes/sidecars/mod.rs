//! Sidecars as tests want them: one server on one port plays the sidecar, behind its proxy, of every node.
//!
//! The node is told by the host name that a request was made to (and by TLS, by the server name), so the process under
//! test must keep it and only dial [`Sidecars::address`] instead. What a sidecar answers is what the real one answers;
//! what becomes of tasks and requests is scripted, for one node or for all, while the test runs.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use api::sidecar_wire::{TaskType, path};
//! # use testbed::sidecars::{Outcome, Requests, Sidecars, Trouble};
//! # async fn example() -> testbed::Result<()> {
//! let sidecars = Sidecars::start().await?;
//! let node = sidecars.node("sei", "full-0");
//! node.on_task(TaskType::ConfigApply, Outcome::fail(2, "no space left on device"));
//! let slow = sidecars.on_request(Requests::path(path::HEALTHZ), Trouble::Late(Duration::from_secs(25)));
//! // ... let the operator work with --sidecar-address-template=ADDRESS ...
//! node.wait_submitted(TaskType::MarkReady, Duration::from_secs(30)).await?;
//! slow.lift();
//! assert!(sidecars.journal().repeats().is_empty(), "a task was given twice");
//! # Ok(()) }
//! ```
//!
//! With a [`KubeletPlayer`](crate::fakes::kubelet::KubeletPlayer), sidecars live and die with their pods. Without one,
//! every node has one that serves in the clear.

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
pub use self::script::{Outcome, Requests, Script, Trouble};
pub(crate) use self::state::Shared;
pub(crate) use self::transport::Transport;

use self::script::Effect;
use crate::cluster::pki::Identity;
use crate::error::{IoContext, Result};
use crate::harness::wait;

/// A running server; it ends when dropped, and with it every connection.
#[derive(Debug)]
pub struct Sidecars {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl Sidecars {
    /// Sidecars of all nodes, on a free port of loopback.
    pub async fn start() -> Result<Self> {
        let listening = || "listening for sidecars' clients on loopback".to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context(listening)?;
        let address = listener.local_addr().context(listening)?;
        let shared = Shared::new();
        let server = tokio::spawn(connection::serve(listener, shared.clone()));
        Ok(Self { address, shared, server })
    }

    /// What is to be dialled instead of any node's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The sidecar of one node.
    pub fn node(&self, namespace: impl Into<String>, name: impl Into<String>) -> Sidecar {
        Sidecar { shared: self.shared.clone(), name: NodeName::new(namespace, name) }
    }

    /// Accepts these bearer tokens and no others. Before the first call, any is accepted.
    pub fn accept_only<T: Into<String>>(&self, tokens: impl IntoIterator<Item = T>) {
        self.shared.with(|world| world.tokens = tokens.into_iter().map(Into::into).collect());
    }

    /// What becomes of tasks of a type, on every node.
    pub fn on_task(&self, task_type: TaskType, outcome: Outcome) -> Script {
        script::add(&self.shared, None, Effect::Task(Some(task_type), outcome))
    }

    /// What becomes of tasks of every type, on every node.
    pub fn on_any_task(&self, outcome: Outcome) -> Script {
        script::add(&self.shared, None, Effect::Task(None, outcome))
    }

    /// What happens to requests, on every node.
    pub fn on_request(&self, requests: Requests, trouble: Trouble) -> Script {
        script::add(&self.shared, None, Effect::Request(requests, trouble))
    }

    /// What they were asked so far.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Sidecars {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The sidecar of one node.
#[derive(Clone, Debug)]
pub struct Sidecar {
    shared: Arc<Shared>,
    name: NodeName,
}

impl Sidecar {
    /// Whose it is.
    #[must_use]
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// The id that the node has among its peers.
    #[must_use]
    pub fn node_id(&self) -> String {
        exchange::node_id(&self.name)
    }

    /// What becomes of tasks of a type.
    pub fn on_task(&self, task_type: TaskType, outcome: Outcome) -> Script {
        script::add(&self.shared, Some(self.name.clone()), Effect::Task(Some(task_type), outcome))
    }

    /// What becomes of tasks of every type.
    pub fn on_any_task(&self, outcome: Outcome) -> Script {
        script::add(&self.shared, Some(self.name.clone()), Effect::Task(None, outcome))
    }

    /// What happens to requests.
    pub fn on_request(&self, requests: Requests, trouble: Trouble) -> Script {
        script::add(&self.shared, Some(self.name.clone()), Effect::Request(requests, trouble))
    }

    /// Completes the tasks of a type that run, and returns how many these were.
    pub fn complete(&self, task_type: TaskType) -> usize {
        self.shared.end_running(&self.name, task_type, &Ok(()))
    }

    /// Lets the tasks of a type fail that run, and returns how many these were.
    pub fn fail(&self, task_type: TaskType, message: impl Into<String>) -> usize {
        self.shared.end_running(&self.name, task_type, &Err(message.into()))
    }

    /// Restarts the sidecar in its pod: connections break, it is not ready, and what ran is begun anew.
    pub fn restart(&self) {
        self.shared.restart(&self.name);
    }

    /// Forgets every task, as with a new volume. What runs ends nowhere.
    pub fn lose_store(&self) {
        self.shared.with(|world| world.node(&self.name).ledger.clear());
    }

    /// Serves in the clear from here on. With a kubelet player, the pod says how it is served.
    pub fn serve_plain(&self) {
        self.shared.serve(&self.name, Transport::Plain);
    }

    /// Serves by TLS with this certificate from here on. With a kubelet player, the pod says how it is served.
    pub fn serve_tls(&self, identity: &Identity) -> Result<()> {
        self.shared.serve(&self.name, Transport::tls(identity)?);
        Ok(())
    }

    /// Whether it says that the node may start.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.with(|world| world.node(&self.name).ready)
    }

    /// How often it was started again; with a kubelet player, each pod counts.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.shared.with(|world| world.node(&self.name).restarts)
    }

    /// The tasks that it lists, the newest first.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskResult> {
        self.shared.with(|world| world.node(&self.name).ledger.newest().into_iter().cloned().collect())
    }

    /// Waits until a task of this type was given, taken or not, and returns the first such request.
    pub async fn wait_submitted(&self, task_type: TaskType, limit: Duration) -> Result<Request> {
        self.wait_request(&format!("a {task_type} for {}", self.name), limit, |request| {
            request.task_type.as_deref() == Some(task_type.as_str())
        })
        .await
    }

    /// Waits until the task with this id was given, taken or not, and returns the first such request.
    pub async fn wait_submitted_id(&self, id: &str, limit: Duration) -> Result<Request> {
        self.wait_request(&format!("task {id} for {}", self.name), limit, |request| {
            request.task_id.as_deref() == Some(id)
        })
        .await
    }

    /// Waits until it says that the node may start.
    pub async fn wait_ready(&self, limit: Duration) -> Result<()> {
        wait::until(format!("the sidecar of {} to be ready", self.name), limit, || async {
            if self.is_ready() { Ok(()) } else { Err(format!("its tasks are {:?}", self.tasks())) }
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
            let given = self
                .shared
                .journal
                .requests(|request| request.node == self.name && request.is_submission() && wanted(request));
            given.into_iter().next().ok_or_else(|| format!("its tasks are {:?}", self.tasks()))
        })
        .await
    }
}
