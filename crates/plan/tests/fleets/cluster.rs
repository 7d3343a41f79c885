//! A fleet, its nodes, and a clock. Nodes behave as the node controller makes them: an edit takes them down until their next step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::condition::{self, ChainSynced, NodeUpdateInProgress, Ready, Reason, SidecarReady, SpecApplied};
use api::fleet::{FleetNodeState, SeiNodeDeploymentStatus};
use api::names::{annotation, label};
use api::sei_node::{SeiNodePhase, SeiNodeStatus};
use api::{SeiNode, SeiNodeDeployment};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use plan::fleet::{Action, ChainValidator, Observed, decide};
use serde_json::{Value, json};

pub const GOOD: &str = "images.example/sei:v1";
pub const BETTER: &str = "images.example/sei:v2";
/// Nodes with this image never become ready.
pub const BAD: &str = "images.example/sei:bad";

/// A fleet in a cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub fleet: SeiNodeDeployment,
    pub nodes: BTreeMap<String, SeiNode>,
    pub revisions: BTreeMap<String, ControllerRevision>,
    pub services: BTreeMap<String, Service>,
    pub powers: BTreeMap<String, i64>,
    pub now: Time,
    /// How often the spec of each node was written after its creation.
    pub updates: BTreeMap<String, usize>,
    /// The most nodes that were unavailable at a time after all were available once.
    pub most_unavailable: usize,
    /// How often a status was stored.
    pub status_writes: usize,
    next_uid: u64,
}

impl Cluster {
    /// Creates a fleet of full nodes, changed by `change`.
    pub fn new(replicas: i32, change: impl FnOnce(&mut Value)) -> Self {
        let mut fleet = json!({
            "metadata": { "name": "f", "namespace": "sei", "uid": "fleet-uid", "generation": 1 },
            "spec": {
                "replicas": replicas,
                "template": { "spec": { "chainId": "arctic-1", "image": GOOD, "fullNode": {} } },
            },
        });
        change(&mut fleet);
        Self {
            fleet: serde_json::from_value(fleet).unwrap(),
            nodes: BTreeMap::new(),
            revisions: BTreeMap::new(),
            services: BTreeMap::new(),
            powers: BTreeMap::new(),
            now: Time(Timestamp::UNIX_EPOCH),
            updates: BTreeMap::new(),
            most_unavailable: 0,
            status_writes: 0,
            next_uid: 0,
        }
    }

    /// Creates a fleet with a limit of unavailable nodes, all of them available.
    pub fn available(replicas: i32, max_unavailable: Value) -> Self {
        let mut cluster = Self::new(replicas, |fleet| {
            fleet["spec"]["updateStrategy"] = json!({ "maxUnavailable": max_unavailable });
        });
        cluster.converge();
        cluster
    }

    /// Creates a fleet of validators with these powers, all of them available.
    pub fn validators(powers: &[i64], strategy: Value) -> Self {
        let replicas = i32::try_from(powers.len()).unwrap();
        let mut cluster = Self::new(replicas, |fleet| {
            let spec = &mut fleet["spec"]["template"]["spec"];
            spec["fullNode"].take();
            spec["validator"] = json!({});
            fleet["spec"]["updateStrategy"] = strategy;
        });
        cluster.powers =
            powers.iter().enumerate().map(|(index, power)| (format!("f-{index}"), *power)).collect();
        cluster.converge();
        cluster
    }

    pub fn status(&self) -> SeiNodeDeploymentStatus {
        self.fleet.status.clone().unwrap_or_default()
    }

    /// Edits the spec of the fleet.
    pub fn edit(&mut self, change: impl FnOnce(&mut SeiNodeDeployment)) {
        change(&mut self.fleet);
        *self.fleet.metadata.generation.get_or_insert(0) += 1;
    }

    /// Edits the image.
    pub fn edit_image(&mut self, image: &str) {
        self.edit(|fleet| fleet.spec.template.spec.image = image.into());
    }

    /// Annotates the fleet.
    pub fn annotate(&mut self, name: &str, value: &str) {
        self.fleet.metadata.annotations.get_or_insert_default().insert(name.into(), value.into());
    }

    /// Annotates a node.
    pub fn annotate_node(&mut self, node: &str, name: &str, value: &str) {
        let node = self.nodes.get_mut(node).unwrap();
        node.metadata.annotations.get_or_insert_default().insert(name.into(), value.into());
    }

    pub fn pass(&mut self, seconds: i64) {
        self.now = Time(self.now.0.saturating_add(SignedDuration::from_secs(seconds)).unwrap());
    }

    pub fn image_of(&self, node: &str) -> &str {
        &self.nodes[node].spec.image
    }

    /// Returns the names of the nodes with an image.
    pub fn with_image(&self, image: &str) -> Vec<String> {
        self.nodes.iter().filter(|(_, node)| node.spec.image == image).map(|(name, _)| name.clone()).collect()
    }

    pub fn state_of(&self, node: &str) -> Option<FleetNodeState> {
        self.status().nodes.iter().find(|summary| summary.name == node)?.state
    }

    /// Returns the message of a condition with this reason.
    pub fn message_of<R: Reason>(&self, reason: R) -> String {
        let status = self.status();
        let found = condition::find::<R>(&status.conditions).unwrap();
        assert_eq!(found.reason, reason.as_str(), "{}", found.message);
        found.message.clone()
    }

    pub fn observe(&self) -> Observed {
        let is_validator = |node: &&SeiNode| node.spec.validator.is_some();
        let validators = self.nodes.values().filter(is_validator).map(|node| {
            let name = node.metadata.name.clone().unwrap();
            ChainValidator {
                power: self.powers.get(&name).copied(),
                is_available: is_ready(node),
                namespace: "sei".into(),
                name,
            }
        });
        let service = |name: &str| self.services.get(name).cloned().map(Arc::new);
        Observed {
            nodes: self.nodes.values().cloned().map(Arc::new).collect(),
            revisions: self.revisions.values().cloned().map(Arc::new).collect(),
            internal_service: service("f-internal"),
            external_service: service("f-external"),
            validators: validators.collect(),
            ..Observed::default()
        }
    }

    /// Reconciles once: the actions are executed, and the status is stored. Returns whether anything changed.
    pub fn reconcile(&mut self) -> bool {
        let decision = decide(&self.fleet, self.status(), &self.observe(), &self.now);
        let mut has_changed = false;
        for action in decision.actions {
            has_changed |= self.execute(action);
        }
        if self.fleet.status.as_ref() != Some(&decision.status) {
            self.fleet.status = Some(decision.status);
            self.status_writes += 1;
            has_changed = true;
        }
        self.record_unavailable();
        has_changed
    }

    fn execute(&mut self, action: Action) -> bool {
        match action {
            Action::CreateNode(node) => {
                let mut node = *node;
                let name = node.metadata.name.clone().unwrap();
                assert!(!self.nodes.contains_key(&name), "{name} exists");
                self.next_uid += 1;
                node.metadata.uid = Some(format!("uid-{}", self.next_uid));
                node.metadata.generation = Some(1);
                node.status = Some(SeiNodeStatus {
                    phase: Some(SeiNodePhase::Initializing),
                    ..SeiNodeStatus::default()
                });
                self.nodes.insert(name, node);
                true
            }
            Action::UpdateNode(desired, observed) => self.write_node(*desired, &observed, true),
            Action::AdoptNode(desired, observed) => self.write_node(*desired, &observed, false),
            Action::DeleteNode(node) => self.nodes.remove(node.metadata.name.as_deref().unwrap()).is_some(),
            Action::ReleaseNode(node) => {
                let node = self.nodes.get_mut(node.metadata.name.as_deref().unwrap()).unwrap();
                node.metadata.owner_references.take().is_some()
            }
            Action::CreateRevision(revision) => {
                let name = revision.metadata.name.clone().unwrap();
                assert!(self.revisions.insert(name.clone(), *revision).is_none(), "{name} exists");
                true
            }
            Action::RenumberRevision(revision, _) => {
                self.revisions.insert(revision.metadata.name.clone().unwrap(), *revision);
                true
            }
            Action::DeleteRevision(revision) => {
                self.revisions.remove(revision.metadata.name.as_deref().unwrap()).is_some()
            }
            Action::ApplyService(service, _) => {
                let name = service.metadata.name.clone().unwrap();
                self.services.insert(name, (*service).clone()).as_ref() != Some(&*service)
            }
            Action::DeleteService(service) => {
                self.services.remove(service.metadata.name.as_deref().unwrap()).is_some()
            }
            Action::RemoveFinalizer => self.fleet.metadata.finalizers.take().is_some(),
        }
    }

    fn write_node(&mut self, desired: SeiNode, observed: &SeiNode, with_spec: bool) -> bool {
        let name = desired.metadata.name.clone().unwrap();
        let live = self.nodes.get_mut(&name).unwrap();
        assert_eq!(live.metadata.uid, observed.metadata.uid, "{name} was recreated");
        let before = live.clone();
        // Server-side apply: labels and annotations of others stay.
        live.metadata.labels.get_or_insert_default().extend(desired.metadata.labels.unwrap_or_default());
        let annotations = desired.metadata.annotations.unwrap_or_default();
        live.metadata.annotations.get_or_insert_default().extend(annotations);
        if desired.metadata.owner_references.is_some() {
            live.metadata.owner_references = desired.metadata.owner_references;
        }
        if with_spec && live.spec != desired.spec {
            let is_restart = SeiNode { spec: desired.spec.clone(), ..live.clone() }.spec.image
                != live.spec.image
                || live.spec.overrides != desired.spec.overrides;
            live.spec = desired.spec;
            *live.metadata.generation.get_or_insert(0) += 1;
            if is_restart {
                *self.updates.entry(name).or_default() += 1;
            }
        }
        *live != before
    }

    /// Lets every node progress: the image of a node decides whether it becomes ready.
    pub fn run_nodes(&mut self) -> bool {
        let now = self.now.clone();
        let changed = self.nodes.values_mut().filter_map(|node| run_node(node, &now).then_some(()));
        changed.count() > 0
    }

    /// Lets one node fail or recover by itself.
    pub fn set_ready(&mut self, name: &str, is_ready: bool) {
        let now = self.now.clone();
        let node = self.nodes.get_mut(name).unwrap();
        let reason = if is_ready { Ready::NodeReady } else { Ready::PodFailing };
        set(node, reason, "container seid: CrashLoopBackOff", &now);
    }

    /// Sets a condition of a node.
    pub fn set_condition<R: Reason>(&mut self, name: &str, reason: R, message: &str) {
        let now = self.now.clone();
        set(self.nodes.get_mut(name).unwrap(), reason, message, &now);
    }

    /// Runs everything until nothing changes any more.
    pub fn converge(&mut self) {
        for _ in 0..400 {
            let has_reconciled = self.reconcile();
            self.pass(1);
            if !self.run_nodes() && !has_reconciled && !self.reconcile() {
                return;
            }
        }
        panic!("the fleet did not converge: {:#?}", self.status());
    }

    fn record_unavailable(&mut self) {
        let status = self.status();
        let is_established = status.nodes.iter().all(|node| node.established_at.is_some());
        let desired = (0..self.fleet.spec.replicas).map(|ordinal| format!("f-{ordinal}"));
        let unavailable = desired.filter(|name| !self.nodes.get(name).is_some_and(is_ready)).count();
        if is_established && !status.nodes.is_empty() {
            self.most_unavailable = self.most_unavailable.max(unavailable);
        }
    }
}

/// Returns whether a node is ready with its current spec.
pub fn is_ready(node: &SeiNode) -> bool {
    let status = node.status.as_ref();
    status.is_some_and(|status| {
        status.observed_generation == node.metadata.generation
            && condition::is_true::<Ready>(&status.conditions)
    })
}

fn set<R: Reason>(node: &mut SeiNode, reason: R, message: &str, now: &Time) {
    let generation = node.metadata.generation.unwrap_or_default();
    let status = node.status.get_or_insert_default();
    condition::set(&mut status.conditions, reason, message, generation, now);
}

fn run_node(node: &mut SeiNode, now: &Time) -> bool {
    let before = node.clone();
    let generation = node.metadata.generation;
    let status = node.status.get_or_insert_default();
    if status.reconciled_generation == generation {
        return false;
    }
    let is_running = status.phase == Some(SeiNodePhase::Running);
    let is_new_image = status.current_image.as_deref() != Some(node.spec.image.as_str());
    status.observed_generation = generation;
    status.phase = Some(if is_running { SeiNodePhase::Running } else { SeiNodePhase::Initializing });
    if node.spec.image == BAD {
        set(node, Ready::PodFailing, "container seid: ImagePullBackOff", now);
        set(node, NodeUpdateInProgress::UpdateStarted, "image", now);
        return *node != before;
    }
    if is_running && is_new_image {
        status.current_image = Some(node.spec.image.clone());
        set(node, Ready::SeidNotReady, "the pod is starting", now);
        set(node, NodeUpdateInProgress::UpdateStarted, "image", now);
        return true;
    }
    status.current_image = Some(node.spec.image.clone());
    status.phase = Some(SeiNodePhase::Running);
    status.reconciled_generation = generation;
    set(node, Ready::NodeReady, "", now);
    set(node, NodeUpdateInProgress::UpdateComplete, "", now);
    set(node, ChainSynced::InSync, "", now);
    set(node, SidecarReady::Ready, "", now);
    set(node, SpecApplied::AllApplied, "", now);
    true
}

/// Returns the labels that a fleet sets, except for that of the revision.
pub fn fleet_labels(node: &SeiNode) -> BTreeSet<(&str, &str)> {
    let labels = node.metadata.labels.iter().flatten();
    labels
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .filter(|(name, _)| *name != label::REVISION)
        .collect()
}

/// Returns the condition types of a status.
pub fn condition_types(conditions: &[Condition]) -> BTreeSet<&str> {
    conditions.iter().map(|condition| condition.type_.as_str()).collect()
}

pub const HOLD: &str = annotation::HOLD;
