//! Model-checks the decision: nodes with edits, killed operators, lost answers, deleted pods and restarted sidecars, in
//! every order within bounds. From every reachable state, the node must converge to its spec once there are no more
//! faults.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex};

use api::SeiNode;
use api::sei_node::{PlanPhase, SeiNodePhase, SidecarConfig, SidecarTls, TaskStatus};
use plan::Platform;
use stateright::{Checker, Model, Property};

use super::certificate::NODES;
use super::cluster::Cluster;
use super::fixture::{node, platform, run_once, running};
use super::reconcile::{Fault, reconcile};

/// The bound on checked states of each model. `make model` checks more.
const STATES: usize = 300;

/// How many events may happen.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    nodes: usize,
    /// Whether the nodes are running at the start, or new.
    running: bool,
    edits: u8,
    faults: u8,
}

struct Nodes {
    bounds: Bounds,
    platform: Platform,
}

#[derive(Clone, Debug)]
struct State {
    clusters: Vec<Cluster>,
    edits: u8,
    faults: u8,
    /// A hash of the whole state.
    key: u64,
}

impl State {
    fn new(clusters: Vec<Cluster>, edits: u8, faults: u8) -> Self {
        let mut hasher = DefaultHasher::new();
        let prints: Vec<u64> = clusters.iter().map(Cluster::fingerprint).collect();
        (prints, edits, faults).hash(&mut hasher);
        Self { clusters, edits, faults, key: hasher.finish() }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

/// An event of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Event {
    Reconcile(Fault),
    Edit(Edit),
    StatefulSet,
    Kubelet,
    Sidecar,
    PodDeleted,
    ObjectsDeleted,
    SidecarRestarted,
    TasksFail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Edit {
    Image(u8),
    Tls(bool),
    Both,
}

impl Model for Nodes {
    type State = State;
    type Action = (usize, Event);

    fn init_states(&self) -> Vec<State> {
        let start = |name: &&str| match self.bounds.running {
            true => running(node(name), &self.platform),
            false => Cluster::new(node(name)),
        };
        let clusters = NODES[..self.bounds.nodes].iter().map(start).collect();
        vec![State::new(clusters, self.bounds.edits, self.bounds.faults)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<(usize, Event)>) {
        for at in 0..state.clusters.len() {
            let mut events =
                vec![Event::Reconcile(Fault::None), Event::StatefulSet, Event::Kubelet, Event::Sidecar];
            if state.edits > 0 {
                let edits = [Edit::Image(1), Edit::Image(2), Edit::Tls(true), Edit::Tls(false), Edit::Both];
                events.extend(edits.map(Event::Edit));
            }
            if state.faults > 0 {
                let actions = reconcile(&mut state.clusters[at].clone(), &self.platform, Fault::None);
                events.extend((1..=actions).map(|action| Event::Reconcile(Fault::KilledAfter(action))));
                events.extend((1..=actions).map(|action| Event::Reconcile(Fault::AnswerLost(action))));
                events.extend([Event::PodDeleted, Event::ObjectsDeleted]);
                events.extend([Event::SidecarRestarted, Event::TasksFail]);
                events.extend((actions > 0).then_some(Event::Reconcile(Fault::Refused)));
            }
            actions.extend(events.into_iter().map(|event| (at, event)));
        }
    }

    fn next_state(&self, state: &State, (at, event): (usize, Event)) -> Option<State> {
        let mut next = state.clone();
        let cluster = &mut next.clusters[at];
        match event {
            Event::Reconcile(fault) => {
                let actions = reconcile(cluster, &self.platform, fault);
                match fault {
                    Fault::None => {}
                    // The fault did not happen: the same as without.
                    Fault::KilledAfter(action) | Fault::AnswerLost(action) if actions < action => {
                        return None;
                    }
                    _ => next.faults -= 1,
                }
            }
            Event::Edit(edit) => {
                next.edits -= 1;
                cluster.edit(|node| edit.apply(node));
            }
            Event::StatefulSet => cluster.run_stateful_set_controller().then_some(())?,
            Event::Kubelet => cluster.run_kubelet().then_some(())?,
            Event::Sidecar => cluster.run_sidecar().then_some(())?,
            Event::PodDeleted => {
                (!cluster.observed.pods.is_empty()).then_some(())?;
                next.faults -= 1;
                cluster.delete_pod();
            }
            Event::ObjectsDeleted => {
                cluster.delete_objects().then_some(())?;
                next.faults -= 1;
            }
            Event::SidecarRestarted => {
                cluster.sidecar.up.then_some(())?;
                next.faults -= 1;
                cluster.restart_sidecar();
            }
            Event::TasksFail => {
                next.faults -= 1;
                cluster.sidecar.failures += 2;
            }
        }
        let next = State::new(next.clusters, next.edits, next.faults);
        (next.key != state.key).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one pod replacement for each edit", |_, state: &State| {
                state
                    .clusters
                    .iter()
                    .all(|cluster| cluster.pod_deletions.values().all(|deletions| *deletions <= 1))
            }),
            Property::always("a task is submitted once for each attempt", |_, state: &State| {
                state.clusters.iter().all(|cluster| {
                    cluster.submissions.iter().all(|(id, times)| {
                        cluster.sidecar.tasks.get(id).is_some_and(|(_, _, run)| times <= run)
                    })
                })
            }),
            Property::always(
                "without faults, the node converges to its spec",
                |model: &Nodes, state: &State| {
                    state.clusters.iter().all(|cluster| converges(cluster, &model.platform).is_ok())
                },
            ),
            // Otherwise the other properties might hold because nothing happens.
            Property::sometimes("a plan is stored and executed", |_, state: &State| {
                let is_started = |cluster: &Cluster| {
                    let plan = cluster.node.status.as_ref().and_then(|status| status.plan.as_ref());
                    plan.is_some_and(|plan| plan.tasks.iter().any(|task| task.status == TaskStatus::Complete))
                };
                state.clusters.iter().any(is_started)
            }),
        ]
    }
}

impl Edit {
    fn apply(self, node: &mut SeiNode) {
        let tls = |node: &mut SeiNode, on: bool| {
            let issuer = SidecarTls { issuer_name: Some("ca".into()), ..SidecarTls::default() };
            let config = SidecarConfig { tls: on.then_some(issuer), ..SidecarConfig::default() };
            node.spec.sidecar = Some(config);
        };
        match self {
            Self::Image(number) => node.spec.image = format!("sei:{number}"),
            Self::Tls(on) => tls(node, on),
            Self::Both => {
                node.spec.image = "sei:3".into();
                tls(node, true);
            }
        }
    }
}

/// States that are known to converge: paths from different states soon meet.
static CONVERGING: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);

fn key(cluster: &Cluster) -> u64 {
    let mut hasher = DefaultHasher::new();
    (cluster.fingerprint(), cluster.minutes).hash(&mut hasher);
    hasher.finish()
}

/// Runs every component without faults. Returns an error if the node does not converge.
fn converges(cluster: &Cluster, platform: &Platform) -> Result<(), String> {
    let mut cluster = cluster.clone();
    let (mut idle, mut path) = (0, Vec::new());
    for _ in 0..200 {
        let current = key(&cluster);
        let is_known = CONVERGING.lock().unwrap().contains(&current);
        // Longer than any backoff.
        if is_known || idle > 12 {
            if !is_known {
                check_in_sync(&cluster)?;
            }
            CONVERGING.lock().unwrap().extend(path);
            return Ok(());
        }
        path.push(current);
        // Time passes only when there is nothing to do.
        if run_once(&mut cluster, platform) {
            idle = 0;
        } else {
            idle += 1;
            cluster.minutes += 1;
        }
    }
    Err(format!("not converged: {:?}", cluster.node.status))
}

fn check_in_sync(cluster: &Cluster) -> Result<(), String> {
    let status = cluster.node.status.clone().unwrap_or_default();
    let error = |what: &str| Err(format!("{what}: {status:#?}"));
    let image =
        cluster.observed.pods.first().and_then(|pod| {
            pod.spec.as_ref()?.containers.iter().find(|one| one.name == "seid")?.image.clone()
        });
    let is_tls_desired = cluster.node.spec.sidecar.as_ref().is_some_and(|sidecar| sidecar.tls.is_some());
    if status.phase != Some(SeiNodePhase::Running) {
        return error("the node is not running");
    }
    if status.plan.as_ref().is_some_and(|plan| plan.phase != PlanPhase::Complete) {
        return error("the plan is not complete");
    }
    if image.as_deref() != Some(&cluster.node.spec.image) || status.current_image != image {
        return error("wrong image");
    }
    if !cluster.sidecar.ready || cluster.sidecar.tls != is_tls_desired {
        return error("wrong sidecar state");
    }
    if status.reconciled_generation != cluster.node.metadata.generation {
        return error("wrong reconciledGeneration");
    }
    if cluster.observed.certificate.is_some() != is_tls_desired {
        return error("wrong Certificate");
    }
    Ok(())
}

/// Checks states in breadth-first order, up to the bound, and prints how many.
fn check(what: &str, bounds: Bounds) {
    let states = std::env::var("OUTRIGGER_MODEL_STATES").ok();
    let states = states.map_or(STATES, |states| states.parse().expect("OUTRIGGER_MODEL_STATES is a number"));
    let model = Nodes { bounds, platform: platform() };
    let checked = model.checker().threads(2).target_state_count(states).spawn_bfs().join();
    for cluster in checked.discoveries().into_values().flat_map(|path| path.last_state().clusters.clone()) {
        // Prints the error before stateright prints the path. Examples of `sometimes` have no error.
        if let Err(error) = converges(&cluster, &platform()) {
            eprintln!("{error}");
        }
    }
    checked.assert_properties();
    let (generated, unique) = (checked.state_count(), checked.unique_state_count());
    let extent =
        if generated < states { "exhaustive".to_owned() } else { format!("depth {}", checked.max_depth()) };
    println!("{what}: {unique} unique states, {generated} generated, {extent}");
}

#[test]
fn new_node_converges_whatever_happens() {
    check("a new node", Bounds { nodes: 1, running: false, edits: 2, faults: 2 });
}

#[test]
fn running_node_converges_whatever_happens() {
    check("a running node", Bounds { nodes: 1, running: true, edits: 2, faults: 2 });
}

/// With one edit and one fault `make model` checks every state.
#[test]
fn node_converges_whatever_happens_once() {
    check("a new node, one edit, one fault", Bounds { nodes: 1, running: false, edits: 1, faults: 1 });
    check("a running node, one edit, one fault", Bounds { nodes: 1, running: true, edits: 1, faults: 1 });
}

#[test]
fn two_running_nodes_converge_whatever_happens() {
    check("two running nodes", Bounds { nodes: 2, running: true, edits: 2, faults: 1 });
}
