//! The decision is model-checked: nodes with edits, killed operators, lost answers, deleted pods and restarted sidecars, in
//! every order within bounds. From every state that can be reached, a world without further disturbance must come to rest
//! with the node as its spec says.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex};

use api::SeiNode;
use api::sei_node::{PlanPhase, SeiNodePhase, SidecarConfig, SidecarTls, TaskStatus};
use plan::Platform;
use stateright::{Checker, Model, Property};

use super::certificate::NODES;
use super::cluster::Cluster;
use super::operator::{Disturbance, pass};
use super::specimen::{node, platform, round, running};

/// How many states are looked at in the bounded form, for each model. `make model` looks at more.
const STATES: usize = 300;

/// What may happen, and how often.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    nodes: usize,
    /// Whether they run in the beginning, or were just created.
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
    /// A hash of all of it, made once.
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

/// What happens to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Event {
    Pass(Disturbance),
    Edit(Edit),
    StatefulSet,
    Kubelet,
    Sidecar,
    PodDeleted,
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
        let begin = |name: &&str| match self.bounds.running {
            true => running(node(name), &self.platform),
            false => Cluster::new(node(name)),
        };
        let clusters = NODES[..self.bounds.nodes].iter().map(begin).collect();
        vec![State::new(clusters, self.bounds.edits, self.bounds.faults)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<(usize, Event)>) {
        for at in 0..state.clusters.len() {
            let mut events =
                vec![Event::Pass(Disturbance::None), Event::StatefulSet, Event::Kubelet, Event::Sidecar];
            if state.edits > 0 {
                let edits = [Edit::Image(1), Edit::Image(2), Edit::Tls(true), Edit::Tls(false), Edit::Both];
                events.extend(edits.map(Event::Edit));
            }
            if state.faults > 0 {
                let acts = pass(&mut state.clusters[at].clone(), &self.platform, Disturbance::None);
                events.extend((1..=acts).map(|act| Event::Pass(Disturbance::KilledAfter(act))));
                events.extend((1..=acts).map(|act| Event::Pass(Disturbance::AnswerLost(act))));
                events.extend([Event::PodDeleted, Event::SidecarRestarted, Event::TasksFail]);
            }
            actions.extend(events.into_iter().map(|event| (at, event)));
        }
    }

    fn next_state(&self, state: &State, (at, event): (usize, Event)) -> Option<State> {
        let mut next = state.clone();
        let cluster = &mut next.clusters[at];
        match event {
            Event::Pass(disturbed) => {
                let acts = pass(cluster, &self.platform, disturbed);
                match disturbed {
                    Disturbance::None => {}
                    // It did not come so far: the same as undisturbed.
                    Disturbance::KilledAfter(act) | Disturbance::AnswerLost(act) if acts < act => {
                        return None;
                    }
                    _ => next.faults -= 1,
                }
            }
            Event::Edit(edit) => {
                next.edits -= 1;
                cluster.edit(|node| edit.make(node));
            }
            Event::StatefulSet => cluster.stateful_set_works().then_some(())?,
            Event::Kubelet => cluster.kubelet_works().then_some(())?,
            Event::Sidecar => cluster.sidecar_works().then_some(())?,
            Event::PodDeleted => {
                (!cluster.world.pods.is_empty()).then_some(())?;
                next.faults -= 1;
                cluster.pod_is_deleted();
            }
            Event::SidecarRestarted => {
                cluster.sidecar.up.then_some(())?;
                next.faults -= 1;
                cluster.sidecar_restarts();
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
            Property::always("one edit, one pod cycle", |_, state: &State| {
                state.clusters.iter().all(|cluster| cluster.cycles.values().all(|cycles| *cycles <= 1))
            }),
            Property::always("a task is given once for each attempt", |_, state: &State| {
                state.clusters.iter().all(|cluster| {
                    cluster.given.iter().all(|(id, times)| {
                        cluster.sidecar.tasks.get(id).is_some_and(|(_, _, run)| times <= run)
                    })
                })
            }),
            Property::always(
                "left alone, it comes to rest as its spec says",
                |model: &Nodes, state: &State| {
                    state.clusters.iter().all(|cluster| comes_to_rest(cluster, &model.platform).is_ok())
                },
            ),
            // Else the others might hold because nothing happens.
            Property::sometimes("a plan is stored and begun", |_, state: &State| {
                let begun = |cluster: &Cluster| {
                    let plan = cluster.node.status.as_ref().and_then(|status| status.plan.as_ref());
                    plan.is_some_and(|plan| plan.tasks.iter().any(|task| task.status == TaskStatus::Complete))
                };
                state.clusters.iter().any(begun)
            }),
        ]
    }
}

impl Edit {
    fn make(self, node: &mut SeiNode) {
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

/// States that are known to come to rest: ways from different states soon meet.
static GOOD: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);

fn key(cluster: &Cluster) -> u64 {
    let mut hasher = DefaultHasher::new();
    (cluster.fingerprint(), cluster.minutes).hash(&mut hasher);
    hasher.finish()
}

/// Lets everybody work, in turn, without any disturbance. Says what is wrong if that does not end well.
fn comes_to_rest(cluster: &Cluster, platform: &Platform) -> Result<(), String> {
    let mut cluster = cluster.clone();
    let (mut calm, mut way) = (0, Vec::new());
    for _ in 0..200 {
        let here = key(&cluster);
        let known = GOOD.lock().unwrap().contains(&here);
        // Longer than any wait before a retry.
        if known || calm > 12 {
            if !known {
                as_wanted(&cluster)?;
            }
            GOOD.lock().unwrap().extend(way);
            return Ok(());
        }
        way.push(here);
        // Time passes only when there is nothing else to do.
        if round(&mut cluster, platform) {
            calm = 0;
        } else {
            calm += 1;
            cluster.minutes += 1;
        }
    }
    Err(format!("no rest: {:?}", cluster.node.status))
}

fn as_wanted(cluster: &Cluster) -> Result<(), String> {
    let status = cluster.node.status.clone().unwrap_or_default();
    let wrong = |what: &str| Err(format!("{what}: {status:#?}"));
    let image =
        cluster.world.pods.first().and_then(|pod| {
            pod.spec.as_ref()?.containers.iter().find(|one| one.name == "seid")?.image.clone()
        });
    let wants_tls = cluster.node.spec.sidecar.as_ref().is_some_and(|sidecar| sidecar.tls.is_some());
    if status.phase != Some(SeiNodePhase::Running) {
        return wrong("not running");
    }
    if status.plan.as_ref().is_some_and(|plan| plan.phase != PlanPhase::Complete) {
        return wrong("a plan is not complete");
    }
    if image.as_deref() != Some(&cluster.node.spec.image) || status.current_image != image {
        return wrong("the image");
    }
    if !cluster.sidecar.ready || cluster.sidecar.tls != wants_tls {
        return wrong("the sidecar");
    }
    if status.reconciled_generation != cluster.node.metadata.generation {
        return wrong("the generation");
    }
    if cluster.world.certificate.is_some() != wants_tls {
        return wrong("the certificate");
    }
    Ok(())
}

/// Looks at states, nearest first, until there are no more or enough of them; says how many.
fn check(what: &str, bounds: Bounds) {
    let states = std::env::var("OUTRIGGER_MODEL_STATES").ok();
    let states = states.map_or(STATES, |states| states.parse().expect("OUTRIGGER_MODEL_STATES is a number"));
    let model = Nodes { bounds, platform: platform() };
    let checked = model.checker().threads(2).target_state_count(states).spawn_bfs().join();
    for cluster in checked.discoveries().into_values().flat_map(|path| path.last_state().clusters.clone()) {
        // Says what is wrong before the path to it is shown; of a good example there is nothing to say.
        if let Err(why) = comes_to_rest(&cluster, &platform()) {
            eprintln!("{why}");
        }
    }
    checked.assert_properties();
    let (ways, different) = (checked.state_count(), checked.unique_state_count());
    let extent = if ways < states {
        "all there are".to_owned()
    } else {
        format!("{} steps deep", checked.max_depth())
    };
    println!("{what}: {different} different states, reached in {ways} ways, {extent}");
}

#[test]
fn a_new_node_comes_to_rest_whatever_happens() {
    check("a new node", Bounds { nodes: 1, running: false, edits: 2, faults: 2 });
}

#[test]
fn a_running_node_comes_to_rest_whatever_happens() {
    check("a running node", Bounds { nodes: 1, running: true, edits: 2, faults: 2 });
}

/// Of one edit and one fault there are few enough states for all of them to be looked at by `make model`.
#[test]
fn one_node_comes_to_rest_whatever_happens_once() {
    check("a new node, one edit, one fault", Bounds { nodes: 1, running: false, edits: 1, faults: 1 });
    check("a running node, one edit, one fault", Bounds { nodes: 1, running: true, edits: 1, faults: 1 });
}

#[test]
fn two_running_nodes_come_to_rest_whatever_happens() {
    check("two running nodes", Bounds { nodes: 2, running: true, edits: 2, faults: 1 });
}
