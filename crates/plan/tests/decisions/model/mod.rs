//! Model-checks the decision: nodes with edits, pauses, changes of the platform, killed operators, lost and late answers, failed tasks,
//! deleted pods and claims, and restarted sidecars, in every order within bounds. From every reachable state, the nodes must converge
//! once there are no more faults.

mod convergence;
mod event;
mod properties;
mod scopes;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use api::SeiNode;
use plan::Platform;
use plan::node::{DisruptionLimit, PacedNode, UpdateSlot, grant};
use stateright::{Checker, Model, Property};

use self::event::{Edit, Event};
use self::properties::Example;
use super::certificate::NODES;
use super::cluster::Cluster;
use super::fixture::{node, platform, running, validator};
use super::history::Violation;
use super::reconcile::{Fault, reconcile};

/// The bound on checked states of each model; stateright checks up to 1,500 more for each thread. `make model` checks more.
const STATES: usize = 300;

/// What may happen, and how often.
#[derive(Clone, Copy, Debug)]
struct Scope {
    nodes: &'static [Role],
    /// How many nodes may be updated for the platform at a time.
    disruptions: usize,
    /// The nodes are running at the start, and not new.
    is_running: bool,
    steps: Steps,
    edits: (u8, &'static [Edit]),
    pauses: u8,
    platform_changes: u8,
    faults: (u8, &'static [Event]),
    /// Faults of reconciles, which count like the others.
    reconcile_faults: ReconcileFaults,
    /// States that must be reached. Otherwise the properties might hold because nothing happens.
    examples: &'static [Example],
}

/// The role of a node, and its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    FullNode,
    Validator,
    ValidatorOfAnotherChain,
}

impl Role {
    fn node(self, name: &str) -> SeiNode {
        match self {
            Self::FullNode => node(name),
            Self::Validator => validator(name),
            Self::ValidatorOfAnotherChain => {
                let mut validator = validator(name);
                validator.spec.chain_id = "pacific-1".into();
                validator
            }
        }
    }
}

/// What happens at once. The less happens at once, the more orders there are, and the fewer events of other kinds can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    /// The StatefulSet controller, the kubelet, the sidecar and the operator each work at different times.
    Single,
    /// All components but the operator work one after the other.
    Components,
    /// All components work one after the other, and then the operator.
    All,
}

impl Steps {
    fn events(self) -> &'static [Event] {
        const RECONCILE: Event = Event::Reconcile(Fault::None);
        match self {
            Self::Single => &[RECONCILE, Event::StatefulSet, Event::Kubelet, Event::Sidecar],
            Self::Components => &[RECONCILE, Event::Components],
            Self::All => &[Event::All],
        }
    }
}

/// What may go wrong in a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReconcileFaults {
    Never,
    /// The operator is killed after it has submitted mark-ready.
    KilledAfterRelease,
    /// It is killed, an answer is lost, or the API server refuses all writes.
    Any,
}

struct Nodes {
    scope: Scope,
    /// The platform after each change.
    platforms: Vec<Platform>,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    edits: u8,
    pauses: u8,
    platform_changes: u8,
    faults: u8,
}

#[derive(Clone)]
struct State {
    clusters: Vec<Cluster>,
    budget: Budget,
    /// A hash of the whole state.
    key: u64,
}

impl State {
    fn new(clusters: Vec<Cluster>, budget: Budget) -> Self {
        let key = key(&clusters, budget);
        Self { clusters, budget, key }
    }
}

/// Leaves out what is too long to be read in a path.
impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.budget)?;
        for cluster in &self.clusters {
            let plan = cluster.node.status.as_ref().and_then(|status| status.plan.as_ref());
            let plan = plan.map(|plan| (plan.kind, plan.phase));
            write!(formatter, " {plan:?} {:?} {:?}", cluster.pod_deletions, cluster.history)?;
        }
        Ok(())
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

/// Returns a hash of clusters and something that they depend on.
fn key(clusters: &[Cluster], context: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    let prints: Vec<(u64, i64)> =
        clusters.iter().map(|cluster| (cluster.fingerprint(), cluster.minutes)).collect();
    (prints, context).hash(&mut hasher);
    hasher.finish()
}

/// Decides whether a node may be updated for a change of the platform, from the stored nodes.
fn update_slot(clusters: &[Cluster], at: usize, limit: usize) -> UpdateSlot {
    let paced: Vec<PacedNode> = clusters.iter().map(|cluster| PacedNode::new(&cluster.node)).collect();
    let others = paced.iter().enumerate().filter(|(other, _)| *other != at);
    let ordered = others.map(|(other, node)| (node, other < at));
    match grant(&paced[at], ordered, DisruptionLimit::Count(limit)) {
        Ok(()) => UpdateSlot::Granted,
        Err(queued) => UpdateSlot::Queued(queued),
    }
}

impl Nodes {
    fn new(scope: Scope) -> Self {
        let changed =
            |change: u8| Platform { sidecar_image: format!("sidecar:{}", change + 1), ..platform() };
        Self { scope, platforms: (0..=scope.platform_changes).map(changed).collect() }
    }

    fn platform(&self, budget: Budget) -> &Platform {
        &self.platforms[usize::from(self.scope.platform_changes - budget.platform_changes)]
    }

    /// Returns the groups of nodes whose updates depend on each other.
    fn groups<'a>(&self, clusters: &'a [Cluster]) -> std::slice::Chunks<'a, Cluster> {
        clusters.chunks(if self.scope.platform_changes > 0 { clusters.len() } else { 1 })
    }

    fn converges(&self, state: &State) -> Result<(), String> {
        self.groups(&state.clusters).try_for_each(|group| {
            convergence::check(group, self.platform(state.budget), self.scope.disruptions)
        })
    }

    fn reconcile(&self, state: &mut State, at: usize, fault: Fault) -> usize {
        let platform = self.platform(state.budget);
        state.clusters[at].update_slot = update_slot(&state.clusters, at, self.scope.disruptions);
        let before = state.clusters[at].clone();
        let actions = reconcile(&mut state.clusters[at], platform, fault);
        state.clusters[at].history.known_sidecar_image = Some(platform.sidecar_image.clone());
        let is_started =
            state.clusters[at].is_platform_update_unfinished() && !before.is_platform_update_unfinished();
        if is_started && before.must_be_updated_last() {
            let has_others = state.clusters.iter().any(|other| other.is_updated_before(&before, platform));
            if has_others || !before.is_queued() {
                state.clusters[at].history.violations.insert(Violation::ValidatorNotLast);
            }
        }
        actions
    }

    /// Returns the reconciles of a node with each fault that makes a difference.
    fn failing_reconciles(&self, state: &State, at: usize) -> Vec<Event> {
        let actions = self.reconcile(&mut state.clone(), at, Fault::None);
        let has_unknown_release = |state: &State| state.clusters[at].history.has_unknown_release;
        let is_after_release = |fault: &Fault| {
            let mut killed = state.clone();
            self.reconcile(&mut killed, at, *fault);
            has_unknown_release(&killed) && !has_unknown_release(state)
        };
        let mut faults: Vec<Fault> = (1..=actions).map(Fault::KilledAfter).collect();
        if self.scope.reconcile_faults == ReconcileFaults::KilledAfterRelease {
            faults.retain(is_after_release);
        }
        if self.scope.reconcile_faults == ReconcileFaults::Any {
            faults.extend((1..=actions).map(Fault::AnswerLost));
            faults.extend((actions > 0).then_some(Fault::Refused));
        }
        faults.into_iter().map(Event::Reconcile).collect()
    }
}

impl Model for Nodes {
    type State = State;
    type Action = (usize, Event);

    fn init_states(&self) -> Vec<State> {
        let Scope { nodes, is_running, .. } = self.scope;
        let create = |(role, name): (&Role, &&str)| {
            let node = role.node(name);
            if is_running { running(node, &self.platforms[0]) } else { Cluster::new(node) }
        };
        let budget = Budget {
            edits: self.scope.edits.0,
            pauses: self.scope.pauses,
            platform_changes: self.scope.platform_changes,
            faults: self.scope.faults.0,
        };
        vec![State::new(nodes.iter().zip(&NODES).map(create).collect(), budget)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<(usize, Event)>) {
        let budget = state.budget;
        for at in 0..state.clusters.len() {
            let mut events = vec![Event::Resumed, Event::AnswersArrive];
            events.extend_from_slice(self.scope.steps.events());
            if budget.edits > 0 {
                events.extend(self.scope.edits.1.iter().copied().map(Event::Edited));
            }
            if budget.pauses > 0 {
                events.push(Event::Paused);
            }
            if budget.platform_changes > 0 && at == 0 {
                events.push(Event::PlatformChanged);
            }
            if budget.faults > 0 {
                events.extend(self.scope.faults.1.iter().filter(|event| at == 0 || !event.is_global()));
                if self.scope.reconcile_faults != ReconcileFaults::Never {
                    events.extend(self.failing_reconciles(state, at));
                }
            }
            actions.extend(events.into_iter().map(|event| (at, event)));
        }
    }

    fn next_state(&self, state: &State, (at, event): (usize, Event)) -> Option<State> {
        let mut next = state.clone();
        event.spend(&mut next.budget);
        match event {
            Event::Reconcile(fault) => drop(self.reconcile(&mut next, at, fault)),
            Event::All => {
                next.clusters[at].run_components();
                self.reconcile(&mut next, at, Fault::None);
            }
            event if event.is_global() => {
                next.clusters.iter_mut().try_for_each(|cluster| event.apply(cluster).then_some(()))?;
            }
            event => event.apply(&mut next.clusters[at]).then_some(())?,
        }
        let next = State::new(next.clusters, next.budget);
        (next.key != state.key).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(self.scope.examples)
    }
}

/// Returns the bound on checked states that `make model` sets.
fn requested_states() -> Option<usize> {
    let states = std::env::var("OUTRIGGER_MODEL_STATES").ok()?;
    Some(states.parse().expect("OUTRIGGER_MODEL_STATES is a number"))
}

/// Checks every state of a small model, and in `make model` the first states of a larger one.
fn check_in_depth(what: &str, small: Scope, full: Scope) {
    check_states(what, small, usize::MAX);
    if let Some(states) = requested_states() {
        // What the small model reaches may be too deep.
        check_states(&format!("{what}, more events"), Scope { examples: &[], ..full }, states);
    }
}

/// Checks the first states of a model.
fn check(what: &str, scope: Scope) {
    check_states(what, scope, requested_states().unwrap_or(STATES));
}

/// Checks states in breadth-first order, up to the bound, and prints how many.
fn check_states(what: &str, scope: Scope, states: usize) {
    let checked = Nodes::new(scope).checker().threads(2).target_state_count(states).spawn_bfs().join();
    for (property, path) in checked.discoveries() {
        if scope.examples.iter().any(|(example, _)| *example == property) {
            continue;
        }
        // Before stateright prints one path.
        eprintln!("{what}: violated: {property}");
        if let Err(error) = checked.model().converges(path.last_state()) {
            eprintln!("{error}");
        }
    }
    checked.assert_properties();
    let (generated, unique) = (checked.state_count(), checked.unique_state_count());
    let extent = if generated < states { "exhaustive, " } else { "" };
    println!("{what}: {unique} unique states, {generated} generated, {extent}depth {}", checked.max_depth());
}
