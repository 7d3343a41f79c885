//! State of all fake sidecars of one server, under one lock that is never held across an await.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};

use api::sidecar_wire::{TaskRequest, TaskResult, TaskType};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::connection::ConnectionControl;
use super::journal::Journal;
use super::ledger::{Ledger, Submission};
use super::name::NodeName;
use super::params;
use super::script::{ScriptedOutcome, Scripts};
use super::transport::Transport;
use crate::sync::lock;

/// Shared by connections, handles and the fake kubelet.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(super) journal: Journal,
    /// Runs delayed task ends, also when started from a test thread outside the runtime.
    runtime: Handle,
}

/// Everything under the lock.
#[derive(Debug, Default)]
pub(super) struct State {
    nodes: HashMap<NodeName, Node>,
    pub(super) scripts: Scripts,
    /// Accepted tokens; empty accepts any.
    pub(super) tokens: HashSet<String>,
    /// Namespaces whose sidecars start and stop with their pods.
    pod_namespaces: HashSet<String>,
    /// Notified when a sidecar becomes ready or unready.
    listeners: Vec<mpsc::UnboundedSender<NodeName>>,
    generated_ids: u64,
}

/// The sidecar of one node.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) ledger: Ledger,
    pub(super) ready: bool,
    pub(super) restarts: u64,
    pub(super) transport: Transport,
    /// UID of the pod it runs in, in namespaces with a fake kubelet.
    pod: Option<String>,
    /// Connections with requests to this node; closed ones are pruned.
    connections: Vec<Weak<ConnectionControl>>,
}

impl Node {
    /// Remembers a connection, to reset it on restart.
    pub(super) fn track_connection(&mut self, control: &Arc<ConnectionControl>) {
        self.connections.retain(|known| known.strong_count() > 0);
        if !self.connections.iter().any(|known| known.as_ptr() == Arc::as_ptr(control)) {
            self.connections.push(Arc::downgrade(control));
        }
    }

    /// Resets all connections, as the end of the process would.
    fn reset_connections(&mut self) {
        for control in self.connections.drain(..).filter_map(|known| known.upgrade()) {
            control.reset_now();
        }
    }
}

impl State {
    pub(super) fn node(&mut self, name: &NodeName) -> &mut Node {
        self.nodes.entry(name.clone()).or_default()
    }

    /// Whether the node's address is reachable.
    pub(super) fn is_reachable(&self, name: &NodeName) -> bool {
        !self.pod_namespaces.contains(&name.namespace)
            || self.nodes.get(name).is_some_and(|node| node.pod.is_some())
    }

    fn set_ready(&mut self, name: &NodeName, ready: bool) {
        let node = self.node(name);
        if node.ready != ready {
            node.ready = ready;
            self.listeners.retain(|listener| listener.send(name.clone()).is_ok());
        }
    }
}

/// Behavior of the sidecar.
impl Shared {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), journal: Journal::default(), runtime: Handle::current() })
    }

    pub(super) fn with<T>(&self, access: impl FnOnce(&mut State) -> T) -> T {
        access(&mut lock(&self.state))
    }

    /// Accepts a task or returns the error message.
    pub(super) fn submit(
        self: &Arc<Self>,
        node: &NodeName,
        request: TaskRequest,
    ) -> Result<(String, Submission), String> {
        if request.task_type.is_empty() {
            return Err("type is required".into());
        }
        let task_type = TaskType::from_name(&request.task_type)
            .ok_or_else(|| format!("unknown task type: {}", request.task_type))?;
        let id = request.id.filter(|id| !id.is_empty());
        let id = id.map(|id| Uuid::parse_str(&id).map_err(|_| format!("task ID must be a valid UUID: {id}")));
        let id = id.transpose()?;
        params::validate(task_type, request.params.as_ref())?;
        self.with(|state| {
            if let Some(message) = state.scripts.rejection(node, task_type) {
                return Err(message);
            }
            let id = id.unwrap_or_else(|| {
                state.generated_ids += 1;
                Uuid::new_v5(&Uuid::NAMESPACE_OID, &state.generated_ids.to_be_bytes())
            });
            let id = id.hyphenated().to_string();
            let (submission, execution) =
                state.node(node).ledger.submit(&id, task_type.as_str(), request.params);
            if let Some(execution) = execution {
                self.start_task(state, node, &id, task_type, execution);
            }
            Ok((id, submission))
        })
    }

    /// Ends the running tasks of a type on a node and returns their number.
    pub(super) fn finish_running(
        &self,
        node: &NodeName,
        task_type: TaskType,
        end: &Result<(), String>,
    ) -> usize {
        self.with(|state| {
            let running = state.node(node).ledger.running(task_type.as_str());
            for (id, execution) in &running {
                finish_execution(state, node, id, *execution, end.clone());
            }
            running.len()
        })
    }

    /// Restarts the process: connections are reset, readiness is lost, and running tasks start over.
    pub(super) fn restart(self: &Arc<Self>, node: &NodeName) {
        self.with(|state| self.restart_in(state, node));
    }

    fn restart_in(self: &Arc<Self>, state: &mut State, name: &NodeName) {
        state.set_ready(name, false);
        let node = state.node(name);
        node.reset_connections();
        node.restarts += 1;
        for (id, task_type, execution) in node.ledger.resume() {
            if let Some(task_type) = TaskType::from_name(&task_type) {
                self.start_task(state, name, &id, task_type, execution);
            }
        }
    }

    fn start_task(
        self: &Arc<Self>,
        state: &mut State,
        node: &NodeName,
        id: &str,
        task_type: TaskType,
        execution: u64,
    ) {
        match state.scripts.outcome(node, task_type) {
            ScriptedOutcome::Complete => finish_execution(state, node, id, execution, Ok(())),
            ScriptedOutcome::Run => {}
            ScriptedOutcome::Fail { message, .. } | ScriptedOutcome::Reject { message } => {
                finish_execution(state, node, id, execution, Err(message));
            }
            ScriptedOutcome::CompleteAfter(time) => {
                // Weak: a pending task must not keep an unused server alive.
                let shared = Arc::downgrade(self);
                let (node, id) = (node.clone(), id.to_owned());
                self.runtime.spawn(async move {
                    tokio::time::sleep(time).await;
                    if let Some(shared) = shared.upgrade() {
                        shared.with(|state| finish_execution(state, &node, &id, execution, Ok(())));
                    }
                });
            }
        }
    }

    pub(super) fn task(&self, node: &NodeName, id: &str) -> Option<TaskResult> {
        self.with(|state| state.node(node).ledger.get(id).cloned())
    }

    /// Changes the transport and resets connections, because the real proxy would be a new process.
    pub(super) fn set_transport(&self, node: &NodeName, transport: Transport) {
        self.with(|state| {
            let node = state.node(node);
            node.transport = transport;
            node.reset_connections();
        });
    }
}

/// Effects of pods on their sidecars.
impl Shared {
    /// From now on, sidecars of these namespaces start and stop with their pods. Returns a stream of readiness
    /// changes.
    pub(crate) fn follow_pods(&self, namespaces: &[String]) -> mpsc::UnboundedReceiver<NodeName> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.with(|state| {
            state.pod_namespaces.extend(namespaces.iter().cloned());
            state.listeners.push(sender);
        });
        receiver
    }

    /// The containers of a pod started: the sidecar loses readiness, and does not resume what the one of another pod has accepted.
    /// Ignored if it already runs in this pod.
    pub(crate) fn pod_started(self: &Arc<Self>, node: &NodeName, uid: &str, transport: Transport) {
        self.with(|state| {
            if state.node(node).pod.as_deref() == Some(uid) {
                return;
            }
            let entry = state.node(node);
            entry.pod = Some(uid.to_owned());
            entry.transport = transport;
            entry.ledger.forget_unfinished();
            self.restart_in(state, node);
        });
    }

    /// The proxy of a pod reloaded its certificate. Connections stay open, as with the real proxy.
    pub(crate) fn certificate_changed(&self, node: &NodeName, uid: &str, transport: Transport) {
        self.with(|state| {
            let node = state.node(node);
            if node.pod.as_deref() == Some(uid) {
                node.transport = transport;
            }
        });
    }

    /// The containers of a pod exited. Ignored if the sidecar runs in another pod by now.
    pub(crate) fn pod_ended(&self, node: &NodeName, uid: &str) {
        self.with(|state| {
            let entry = state.node(node);
            if entry.pod.as_deref() == Some(uid) {
                entry.pod = None;
                entry.reset_connections();
                state.set_ready(node, false);
            }
        });
    }

    /// Whether the sidecar in this pod reports ready.
    pub(crate) fn is_ready(&self, node: &NodeName, uid: &str) -> bool {
        self.with(|state| {
            let node = state.node(node);
            node.ready && node.pod.as_deref() == Some(uid)
        })
    }
}

/// Ends one execution of a task and applies its effect on readiness.
fn finish_execution(state: &mut State, name: &NodeName, id: &str, execution: u64, end: Result<(), String>) {
    let succeeded = end.is_ok();
    let Some(task_type) = state.node(name).ledger.finish(id, execution, end) else { return };
    match TaskType::from_name(&task_type).filter(|_| succeeded) {
        Some(TaskType::MarkReady) => state.set_ready(name, true),
        Some(TaskType::MarkNotReady) => {
            state.node(name).ledger.remove_type(TaskType::MarkReady.as_str());
            state.set_ready(name, false);
        }
        _ => {}
    }
}
