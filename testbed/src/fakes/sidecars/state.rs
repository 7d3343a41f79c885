//! All sidecars of one server: what each knows and does. One lock holds everything; nothing waits under it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use api::sidecar_wire::{TaskRequest, TaskResult, TaskType};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::connection::Control;
use super::journal::Journal;
use super::ledger::{Ledger, Submission};
use super::name::NodeName;
use super::params;
use super::script::{Outcome, Scripts};
use super::transport::Transport;

/// What connections, handles and the kubelet player share.
#[derive(Debug)]
pub(crate) struct Shared {
    world: Mutex<World>,
    pub(super) journal: Journal,
    /// Where delayed ends of tasks wait, also when a test that is no task of the runtime begins them.
    runtime: Handle,
}

/// Everything under the lock.
#[derive(Debug, Default)]
pub(super) struct World {
    nodes: HashMap<NodeName, Node>,
    pub(super) scripts: Scripts,
    /// The accepted tokens; any while there are none.
    pub(super) tokens: HashSet<String>,
    /// Namespaces whose sidecars live and die with their pods.
    followed: HashSet<String>,
    /// Who is told when a sidecar becomes ready, or is no longer.
    listeners: Vec<mpsc::UnboundedSender<NodeName>>,
    ids_made: u64,
}

/// One node's sidecar.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) ledger: Ledger,
    pub(super) ready: bool,
    pub(super) restarts: u64,
    pub(super) transport: Transport,
    /// The pod it lives in, where sidecars live and die with pods.
    pod: Option<String>,
    /// Connections over which it was asked; dead ones are forgotten now and then.
    connections: Vec<Weak<Control>>,
}

impl Node {
    /// Notes that it was asked over a connection.
    pub(super) fn asked_over(&mut self, control: &Arc<Control>) {
        self.connections.retain(|known| known.strong_count() > 0);
        if !self.connections.iter().any(|known| known.as_ptr() == Arc::as_ptr(control)) {
            self.connections.push(Arc::downgrade(control));
        }
    }

    /// A process that is gone takes its connections with it.
    fn cut_connections(&mut self) {
        for control in self.connections.drain(..).filter_map(|known| known.upgrade()) {
            control.reset_now();
        }
    }
}

impl World {
    pub(super) fn node(&mut self, name: &NodeName) -> &mut Node {
        self.nodes.entry(name.clone()).or_default()
    }

    /// Whether somebody listens at a node's address.
    pub(super) fn is_there(&self, name: &NodeName) -> bool {
        !self.followed.contains(&name.namespace)
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

/// What sidecars do.
impl Shared {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { world: Mutex::default(), journal: Journal::default(), runtime: Handle::current() })
    }

    pub(super) fn with<T>(&self, access: impl FnOnce(&mut World) -> T) -> T {
        access(&mut self.world.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a task, or says why not.
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
        let given = request.id.filter(|id| !id.is_empty());
        let given =
            given.map(|id| Uuid::parse_str(&id).map_err(|_| format!("task ID must be a valid UUID: {id}")));
        let given = given.transpose()?;
        params::check(task_type, request.params.as_ref())?;
        self.with(|world| {
            if let Some(message) = world.scripts.rejection(node, task_type) {
                return Err(message);
            }
            let id = given.unwrap_or_else(|| {
                world.ids_made += 1;
                Uuid::new_v5(&Uuid::NAMESPACE_OID, &world.ids_made.to_be_bytes())
            });
            let id = id.hyphenated().to_string();
            let (submission, execution) =
                world.node(node).ledger.enter(&id, task_type.as_str(), request.params);
            if let Some(execution) = execution {
                self.begin(world, node, &id, task_type, execution);
            }
            Ok((id, submission))
        })
    }

    /// Ends every task of a type that runs on a node, and returns how many these were.
    pub(super) fn end_running(
        &self,
        node: &NodeName,
        task_type: TaskType,
        end: &Result<(), String>,
    ) -> usize {
        self.with(|world| {
            let running = world.node(node).ledger.running(task_type.as_str());
            for (id, execution) in &running {
                end_in(world, node, id, *execution, end.clone());
            }
            running.len()
        })
    }

    /// The process ends and begins: connections break, the ready flag is gone, and what ran is begun anew.
    pub(super) fn restart(self: &Arc<Self>, node: &NodeName) {
        self.with(|world| self.restart_in(world, node));
    }

    fn restart_in(self: &Arc<Self>, world: &mut World, name: &NodeName) {
        world.set_ready(name, false);
        let node = world.node(name);
        node.cut_connections();
        node.restarts += 1;
        for (id, task_type, execution) in node.ledger.resume() {
            if let Some(task_type) = TaskType::from_name(&task_type) {
                self.begin(world, name, &id, task_type, execution);
            }
        }
    }

    fn begin(
        self: &Arc<Self>,
        world: &mut World,
        node: &NodeName,
        id: &str,
        task_type: TaskType,
        execution: u64,
    ) {
        match world.scripts.outcome(node, task_type) {
            Outcome::Complete => end_in(world, node, id, execution, Ok(())),
            Outcome::Run => {}
            Outcome::Fail { message, .. } | Outcome::Reject { message } => {
                end_in(world, node, id, execution, Err(message));
            }
            Outcome::CompleteAfter(time) => {
                // Weak: a task that is late must not keep a server alive that nobody uses any more.
                let shared = Arc::downgrade(self);
                let (node, id) = (node.clone(), id.to_owned());
                self.runtime.spawn(async move {
                    tokio::time::sleep(time).await;
                    if let Some(shared) = shared.upgrade() {
                        shared.with(|world| end_in(world, &node, &id, execution, Ok(())));
                    }
                });
            }
        }
    }

    pub(super) fn task(&self, node: &NodeName, id: &str) -> Option<TaskResult> {
        self.with(|world| world.node(node).ledger.get(id).cloned())
    }

    /// Serves in another way from here on; connections are cut, since a proxy that serves so is another process.
    pub(super) fn serve(&self, node: &NodeName, transport: Transport) {
        self.with(|world| {
            let node = world.node(node);
            node.transport = transport;
            node.cut_connections();
        });
    }
}

/// What pods do to their sidecars.
impl Shared {
    /// From here on, sidecars of a namespace live and die with their pods. Returns who becomes ready or is no longer.
    pub(crate) fn follow_pods(&self, namespaces: &[String]) -> mpsc::UnboundedReceiver<NodeName> {
        let (tell, told) = mpsc::unbounded_channel();
        self.with(|world| {
            world.followed.extend(namespaces.iter().cloned());
            world.listeners.push(tell);
        });
        told
    }

    /// The containers of a pod have started: a sidecar begins with an empty memory and a full ledger. Nothing happens
    /// if it lives in that pod already.
    pub(crate) fn pod_started(self: &Arc<Self>, node: &NodeName, uid: &str, transport: Transport) {
        self.with(|world| {
            if world.node(node).pod.as_deref() == Some(uid) {
                return;
            }
            let one = world.node(node);
            one.pod = Some(uid.to_owned());
            one.transport = transport;
            self.restart_in(world, node);
        });
    }

    /// The proxy of a pod has read its certificate again. Connections stay, as they do with the real one.
    pub(crate) fn certificate_changed(&self, node: &NodeName, uid: &str, transport: Transport) {
        self.with(|world| {
            let node = world.node(node);
            if node.pod.as_deref() == Some(uid) {
                node.transport = transport;
            }
        });
    }

    /// The containers of a pod have ended. Nothing happens if the sidecar lives in another pod by now.
    pub(crate) fn pod_ended(&self, node: &NodeName, uid: &str) {
        self.with(|world| {
            let one = world.node(node);
            if one.pod.as_deref() == Some(uid) {
                one.pod = None;
                one.cut_connections();
                world.set_ready(node, false);
            }
        });
    }

    /// Whether the sidecar in this pod says that the node may start.
    pub(crate) fn is_ready(&self, node: &NodeName, uid: &str) -> bool {
        self.with(|world| {
            let node = world.node(node);
            node.ready && node.pod.as_deref() == Some(uid)
        })
    }
}

/// Ends one execution of a task, with all that follows from it.
fn end_in(world: &mut World, name: &NodeName, id: &str, execution: u64, end: Result<(), String>) {
    let good = end.is_ok();
    let Some(task_type) = world.node(name).ledger.end(id, execution, end) else { return };
    match TaskType::from_name(&task_type).filter(|_| good) {
        Some(TaskType::MarkReady) => world.set_ready(name, true),
        Some(TaskType::MarkNotReady) => {
            world.node(name).ledger.remove_type(TaskType::MarkReady.as_str());
            world.set_ready(name, false);
        }
        _ => {}
    }
}
