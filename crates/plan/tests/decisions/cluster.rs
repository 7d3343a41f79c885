//! A fake cluster around one node: an API server, a StatefulSet controller, a kubelet and a sidecar, each reduced to
//! what a decision can observe.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use api::SeiNode;
use api::drift;
use api::names::annotation::APPLIED_HASH;
use api::names::container;
use api::sei_node::{Scheme, SeiNodeSpec, SeiNodeStatus};
use api::sidecar_wire::{TaskRequest, TaskResult, TaskState};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube_core::Resource;
use plan::node::{
    Action, Candidates, ChainObservation, ChainProgress, Deletion, DryRunObservation, ExclusiveUse, Health,
    KeyPair, Object, Observed, ObservedPod, ObservedSecret, ObservedStatefulSet, RequiredObservations,
    SecretObservation, ServingObservation, Submission, TaskObservation, UpdateSlot, WriteFailure,
    exclusive_user,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::history::History;

/// A fake cluster around one node.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The stored node.
    pub node: SeiNode,
    /// All other stored objects.
    pub observed: Observed,
    /// Secrets that users or the operator have written. cert-manager issues the Secret of a Certificate when it is read.
    pub secrets: BTreeMap<String, Secret>,
    /// Whether the private keys of Secrets belong to their certificates.
    pub key_pair: KeyPair,
    /// The conditions of a Certificate that is applied.
    pub certificate_conditions: Value,
    /// Other nodes of the namespace, and their objects.
    pub others: Candidates,
    /// The process and the store of the sidecar.
    pub sidecar: Sidecar,
    /// The last uid.
    pub uids: u64,
    /// The number of plans.
    pub plans: u64,
    /// The number of pods that the operator deleted, by [`History::changes`].
    pub pod_deletions: BTreeMap<u32, u32>,
    /// How often each task was submitted, by id.
    pub submissions: BTreeMap<String, u32>,
    /// The number of writes of the operator to the API server.
    pub writes: u64,
    /// Minutes since the start.
    pub minutes: i64,
    /// The answer to a request for an update that no edit asks for.
    pub update_slot: UpdateSlot,
    /// What seid reports about its chain, and the operator remembers. The default is an older sidecar.
    pub chain: (ChainObservation, Option<ChainProgress>),
    /// The sidecar answers later than the operator waits.
    pub is_answer_pending: bool,
    /// What happened so far.
    pub history: History,
    /// The kinds whose writes the API server refuses, with its message.
    pub refusals: BTreeMap<&'static str, &'static str>,
    /// The answer of a reachable sidecar to a dry-run.
    pub dry_run: DryRunObservation,
    /// Submissions do not reach the sidecar, and their answers are pending.
    pub is_submission_pending: bool,
    /// cert-manager issues no certificate.
    pub is_issuer_down: bool,
}

/// The sidecar in the pod of the node.
#[derive(Clone, Debug, Default)]
pub struct Sidecar {
    /// The process is running.
    pub up: bool,
    /// It lets seid run.
    pub ready: bool,
    /// The pod was created with TLS.
    pub pod_has_tls: bool,
    /// The running process serves TLS.
    pub tls: bool,
    /// Tasks on the data volume, by id: type, state, run.
    pub tasks: BTreeMap<String, (String, TaskState, u32)>,
    /// How many of the next tasks fail.
    pub failures: u32,
}

impl Cluster {
    /// Returns a cluster with a new node.
    pub fn new(node: SeiNode) -> Self {
        Self {
            node,
            observed: Observed::default(),
            secrets: BTreeMap::new(),
            key_pair: KeyPair::Matching,
            certificate_conditions: json!([{ "type": "Ready", "status": "True" }]),
            others: Candidates::default(),
            sidecar: Sidecar::default(),
            uids: 1,
            plans: 0,
            pod_deletions: BTreeMap::new(),
            submissions: BTreeMap::new(),
            writes: 0,
            minutes: 0,
            update_slot: UpdateSlot::Granted,
            chain: (ChainObservation::NotSupported, None),
            is_answer_pending: false,
            history: History::default(),
            refusals: BTreeMap::new(),
            dry_run: DryRunObservation::Valid,
            is_submission_pending: false,
            is_issuer_down: false,
        }
    }

    /// Edits the spec.
    pub fn edit(&mut self, change: impl FnOnce(&mut SeiNode)) {
        let before = self.node.spec.clone();
        change(&mut self.node);
        *self.node.metadata.generation.get_or_insert(1) += 1;
        self.history.changes +=
            u32::from(before != SeiNodeSpec { paused: before.paused, ..self.node.spec.clone() });
    }

    /// Stores a status. Returns whether it has changed.
    pub fn record(&mut self, status: &SeiNodeStatus) -> bool {
        if self.node.status.as_ref() == Some(status) {
            return false;
        }
        self.add_to_history(status);
        self.node.status = Some(status.clone());
        self.writes += 1;
        true
    }

    /// Answers the queries of the operator.
    pub fn answer(&self, needs: &RequiredObservations, observed: &mut Observed) {
        let is_reachable = |tls: Scheme| self.sidecar.up && self.sidecar.tls == (tls == Scheme::Https);
        let error = || "no answer".to_owned();
        observed.secrets = needs.secrets.iter().map(|name| (name.clone(), self.secret(name))).collect();
        observed.exclusive_use = needs.exclusive.as_ref().map(|object| {
            let mut candidates = self.others.clone();
            candidates.nodes.push(Arc::new(self.node.clone()));
            candidates.stateful_sets.extend(self.observed.stateful_set.clone());
            candidates.pods.extend(self.observed.pods.clone());
            ExclusiveUse { object: object.clone(), user: exclusive_user(object, &self.node, &candidates) }
        });
        if needs.update_slot {
            observed.update_slot = self.update_slot.clone();
        }
        if self.is_answer_pending {
            return;
        }
        if let Some(to) = &needs.health {
            observed.sidecar.health = match (is_reachable(to.scheme), self.sidecar.ready) {
                (false, _) => Health::Unreachable(error()),
                (true, true) => Health::Ready,
                (true, false) => Health::NotReady,
            };
        }
        if needs.chain.is_some() {
            (observed.sidecar.chain, observed.chain) = self.chain.clone();
        }
        if let Some((to, id)) = &needs.task {
            let task = match (is_reachable(to.scheme), self.sidecar.tasks.get(id)) {
                (false, _) => TaskObservation::Unreachable(error()),
                (true, None) => TaskObservation::NotFound,
                (true, Some((type_, state, run))) => TaskObservation::Found(Box::new(TaskResult {
                    id: id.clone(),
                    task_type: type_.clone(),
                    status: *state,
                    run: *run,
                    params: None,
                    result: None,
                    error: (*state == TaskState::Failed).then(|| "task failed".into()),
                    submitted_at: serde_json::from_value(json!("2026-05-18T10:00:00.000000Z")).unwrap(),
                    completed_at: None,
                })),
            };
            observed.sidecar.task = (id.clone(), task);
        }
        if let Some((to, request)) = &needs.dry_run {
            let answer = match is_reachable(to.scheme) {
                true => self.dry_run.clone(),
                false => DryRunObservation::Unavailable(error()),
            };
            observed.sidecar.dry_run = Some((request.clone(), answer));
        }
        if let Some(to) = &needs.serving {
            observed.sidecar.serving = if is_reachable(to.scheme) {
                ServingObservation::Serving(to.scheme, None)
            } else {
                ServingObservation::Mismatch(error())
            };
        }
    }

    fn secret(&self, name: &str) -> SecretObservation {
        let is_issued = self.observed.certificate.is_some() && !self.is_issuer_down;
        let issued = || super::certificate::secret(name).filter(|_| is_issued);
        let found = self.secrets.get(name).cloned().or_else(issued);
        let observed = |secret| ObservedSecret { secret, key_pair: self.key_pair };
        found
            .map_or(SecretObservation::Missing, |secret| SecretObservation::Found(Arc::new(observed(secret))))
    }

    /// Executes an action of the operator.
    pub fn execute(&mut self, action: &Action, observed: &mut Observed) {
        if let Some(why) = self.refusals.get(action.kind()) {
            observed.write_failures.insert(action.kind(), WriteFailure::Transient((*why).into()));
            return;
        }
        self.add_action_to_history(action);
        match action {
            Action::Apply(object) | Action::Create(object) => {
                self.writes += 1;
                let object = self.store(object);
                set_observed(&mut self.observed, object.clone());
                set_observed(observed, object);
            }
            Action::Delete(Deletion::Pod(pod)) => {
                self.writes += 1;
                *self.pod_deletions.entry(self.history.changes).or_default() += 1;
                let uid = pod.metadata.uid.clone();
                for stored in [&mut self.observed.pods, &mut observed.pods] {
                    for pod in stored.iter_mut().filter(|pod| pod.metadata.uid == uid) {
                        mark_terminating(pod);
                    }
                }
            }
            Action::Delete(Deletion::Certificate(_)) => {
                self.writes += 1;
                self.observed.certificate = None;
                observed.certificate = None;
                self.collect_garbage();
            }
            Action::Delete(Deletion::Job(_)) => {
                self.writes += 1;
                self.observed.job = None;
                observed.job = None;
            }
            Action::Delete(Deletion::Service(_)) => {
                self.writes += 1;
                self.observed.service = None;
                observed.service = None;
            }
            Action::SetClaimOwnership(ownership) => {
                self.writes += 1;
                let mut claim = ownership.claim.clone();
                claim.metadata.owner_references = Some(ownership.owner_references.clone());
                let labels = claim.metadata.labels.get_or_insert_default();
                for (name, value) in &ownership.labels {
                    match value {
                        Some(value) => drop(labels.insert((*name).into(), value.clone())),
                        None => drop(labels.remove(*name)),
                    }
                }
                set_observed(&mut self.observed, Object::Claim(Box::new(claim.clone())));
                set_observed(observed, Object::Claim(Box::new(claim)));
            }
            Action::SetSecretOwnership(ownership) => {
                self.writes += 1;
                let mut secret = ownership.secret.clone();
                secret.metadata.owner_references = Some(ownership.owner_references.clone());
                let name = secret.metadata.name.clone().unwrap();
                self.secrets.insert(name.clone(), secret);
                observed.secrets.insert(name.clone(), self.secret(&name));
            }
            Action::Submit(to, request) => {
                let id = request.id.clone().unwrap_or_default();
                let answer = if self.is_submission_pending {
                    Submission::Pending
                } else if self.sidecar.up && self.sidecar.tls == (to.scheme == Scheme::Https) {
                    self.submit(request);
                    Submission::Accepted
                } else {
                    Submission::Unknown("no answer".into())
                };
                observed.sidecar.submission = Some((id, answer));
                observed.sidecar.task = Default::default();
            }
        }
    }

    fn submit(&mut self, request: &TaskRequest) {
        let id = request.id.clone().unwrap_or_default();
        *self.submissions.entry(id.clone()).or_default() += 1;
        let before = self.sidecar.tasks.get(&id).map(|(_, state, run)| (*state, *run));
        let run = match before {
            None => 1,
            Some((TaskState::Failed, run)) => run + 1,
            Some(_) => return,
        };
        self.sidecar.tasks.insert(id, (request.task_type.clone(), TaskState::Running, run));
    }

    /// Deletes the Secrets whose owners do not exist.
    fn collect_garbage(&mut self) {
        let certificate = self.observed.certificate.as_ref().and_then(|live| live.metadata.uid.clone());
        self.secrets.retain(|_, secret| {
            let owners = secret.metadata.owner_references.as_deref().unwrap_or_default();
            owners.is_empty() || owners.iter().any(|owner| Some(&owner.uid) == certificate.as_ref())
        });
    }

    /// Finishes the running tasks of the sidecar. Returns whether there were any.
    pub fn run_sidecar(&mut self) -> bool {
        if !self.sidecar.up {
            return false;
        }
        let (mut has_worked, mut is_released) = (false, false);
        for (type_, state, _) in self.sidecar.tasks.values_mut().filter(|task| task.1 == TaskState::Running) {
            has_worked = true;
            // Only a task with retries: the failure of any other task fails the plan.
            if self.sidecar.failures > 0 && type_ == "configure-genesis" {
                self.sidecar.failures -= 1;
                *state = TaskState::Failed;
                continue;
            }
            *state = TaskState::Completed;
            is_released |= type_ == "mark-ready";
        }
        if is_released {
            self.sidecar.ready = true;
            self.add_release_to_history();
        }
        has_worked
    }

    fn store(&mut self, object: &Object) -> Object {
        match object {
            Object::StatefulSet(desired) => {
                let live = self.observed.stateful_set.as_deref().map(to_stateful_set).map(Arc::new);
                Object::StatefulSet(Box::new(self.stored(&**desired, live)))
            }
            Object::Service(desired) => {
                Object::Service(Box::new(self.stored(&**desired, self.observed.service.clone())))
            }
            Object::ConfigMap(desired) => {
                Object::ConfigMap(Box::new(self.stored(&**desired, self.observed.proxy_config.clone())))
            }
            Object::NetworkPolicy(desired) => {
                Object::NetworkPolicy(Box::new(self.stored(&**desired, self.observed.network_policy.clone())))
            }
            Object::DisruptionBudget(desired) => Object::DisruptionBudget(Box::new(
                self.stored(&**desired, self.observed.disruption_budget.clone()),
            )),
            Object::Claim(desired) => {
                let claim = match self.observed.claim.as_deref() {
                    None => self.stored(&**desired, None),
                    // The operator applies a part of the claim: the API server keeps the rest.
                    Some(live) => {
                        let mut body = json!(live);
                        merge(&mut body, &json!(desired));
                        serde_json::from_value(body).unwrap()
                    }
                };
                Object::Claim(Box::new(claim))
            }
            Object::Certificate(desired) => {
                let mut live = self.stored(&**desired, self.observed.certificate.clone());
                // cert-manager issues at once.
                live.status =
                    serde_json::from_value(json!({ "conditions": self.certificate_conditions })).unwrap();
                Object::Certificate(Box::new(live))
            }
            Object::Job(desired) => Object::Job(Box::new(self.stored(&**desired, self.observed.job.clone()))),
        }
    }

    /// Returns an object as the API server stores it: with a uid, a generation that counts changes of the spec, and its
    /// status.
    fn stored<K>(&mut self, desired: &K, live: Option<Arc<K>>) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned,
    {
        let mut signed = desired.clone();
        drift::annotate(&mut signed, &drift::hash(desired).unwrap());
        let mut body = serde_json::to_value(&signed).unwrap();
        let before = live.map(|live| serde_json::to_value(&*live).unwrap()).unwrap_or(Value::Null);
        if before.is_null() {
            self.uids += 1;
            body["metadata"]["uid"] = json!(format!("uid-{}", self.uids));
            body["metadata"]["generation"] = json!(1);
        } else {
            body["metadata"]["uid"] = before["metadata"]["uid"].clone();
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(1);
            let changed = i64::from(before["spec"] != body["spec"]);
            body["metadata"]["generation"] = json!(generation + changed);
            body["status"] = before["status"].clone();
        }
        serde_json::from_value(body).unwrap()
    }

    /// Runs the StatefulSet controller, the kubelet and the sidecar. Returns whether anything has changed.
    pub fn run_components(&mut self) -> bool {
        [self.run_stateful_set_controller(), self.run_kubelet(), self.run_sidecar()].contains(&true)
    }

    /// Runs the StatefulSet controller: it observes the template and creates the pod. Returns whether anything has
    /// changed.
    pub fn run_stateful_set_controller(&mut self) -> bool {
        let Some(set) = self.observed.stateful_set.as_deref().map(to_stateful_set) else { return false };
        let mut changed = false;
        let revision = revision(&set);
        let status = set.status.clone().unwrap_or_default();
        if status.observed_generation != set.metadata.generation
            || status.update_revision.as_deref() != Some(&revision)
        {
            let mut updated = set.clone();
            let status = updated.status.get_or_insert_default();
            status.observed_generation = set.metadata.generation;
            status.update_revision = Some(revision.clone());
            self.observed.stateful_set = Some(to_observed(&updated));
            changed = true;
        }
        if self.observed.pods.is_empty() {
            self.uids += 1;
            let template = set.spec.as_ref().unwrap().template.clone();
            let mut pod =
                Pod { metadata: template.metadata.unwrap_or_default(), spec: template.spec, status: None };
            pod.metadata.name = Some(format!("{}-0", set.metadata.name.clone().unwrap()));
            pod.metadata.namespace = set.metadata.namespace.clone();
            pod.metadata.uid = Some(format!("uid-{}", self.uids));
            let labels = pod.metadata.labels.get_or_insert_default();
            labels.insert(REVISION.into(), revision);
            pod.metadata.owner_references = serde_json::from_value(json!([{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": set.metadata.name, "uid": set.metadata.uid, "controller": true,
            }]))
            .unwrap();
            self.sidecar.pod_has_tls = json!(pod.spec).to_string().contains("--secure-listen-address");
            self.observed.pods = vec![Arc::new(serde_json::from_value(json!(pod)).unwrap())];
            changed = true;
        }
        changed
    }

    /// Updates the readiness of seid, which runs while the sidecar lets it. Returns whether it has changed.
    fn probe_seid(&mut self) -> bool {
        let is_ready = self.sidecar.ready;
        let statuses = self.observed.pods.first_mut().and_then(|pod| Arc::make_mut(pod).status.as_mut());
        let seid = statuses.into_iter().flat_map(|status| &mut status.container_statuses);
        let mut has_changed = false;
        for status in seid.filter(|status| status.name == container::SEID && status.ready != is_ready) {
            (status.ready, has_changed) = (is_ready, true);
        }
        has_changed
    }

    /// Runs the kubelet: it removes terminating pods and starts new ones. Returns whether anything has changed.
    pub fn run_kubelet(&mut self) -> bool {
        let before = self.observed.pods.len();
        self.observed.pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        if self.observed.pods.len() != before {
            self.sidecar.up = false;
            self.sidecar.ready = false;
            self.release_claim();
            return true;
        }
        let Some(pod) = self.observed.pods.first() else { return false };
        if pod.status.is_some() && !self.sidecar.up {
            // Its liveness probe fails.
            (self.sidecar.up, self.sidecar.ready) = (true, false);
            return true;
        }
        if pod.status.is_some() {
            return self.probe_seid();
        }
        if self.observed.claim.is_none() {
            // The pod cannot be scheduled.
            return false;
        }
        let mut running = (**pod).clone();
        running.status = serde_json::from_value(json!({
            "phase": "Running",
            "podIP": "198.18.0.9",
            "containerStatuses": [{
                "name": container::SEID, "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "running": {} },
            }],
        }))
        .unwrap();
        // What the previous pod has accepted and not finished is not resumed.
        self.sidecar.tasks.retain(|_, (_, state, _)| *state != TaskState::Running);
        self.submissions.retain(|id, _| self.sidecar.tasks.contains_key(id));
        self.sidecar.tls = self.sidecar.pod_has_tls;
        self.sidecar.up = true;
        self.sidecar.ready = false;
        self.observed.pods = vec![Arc::new(running)];
        true
    }

    /// Binds the claim of the data volume to a volume of this capacity, not as the operator.
    pub fn bind_claim(&mut self, capacity: &str) {
        self.set_claim_status(json!({ "phase": "Bound", "capacity": { "storage": capacity } }));
    }

    /// Sets the status of the claim of the data volume.
    pub fn set_claim_status(&mut self, status: Value) {
        let mut claim = json!(self.observed.claim.as_deref().unwrap());
        claim["status"] = status;
        self.observed.claim = Some(Arc::new(serde_json::from_value(claim).unwrap()));
    }

    /// Returns a hash of the state without counters. Objects are identified by the hash they were applied with.
    pub fn fingerprint(&self) -> u64 {
        let set = self.observed.stateful_set.as_deref().map(to_stateful_set).map(|set| {
            let hash = set.metadata.annotations.as_ref().and_then(|all| all.get(APPLIED_HASH)).cloned();
            let status = set
                .status
                .as_ref()
                .map(|status| (status.observed_generation, status.update_revision.clone()));
            (set.metadata.generation, hash, status)
        });
        let pod = self.observed.pods.first().map(|pod| {
            let revision = pod.metadata.labels.as_ref().and_then(|all| all.get(REVISION)).cloned();
            (
                pod.metadata.uid.clone(),
                revision,
                pod.metadata.deletion_timestamp.is_some(),
                pod.status.as_ref().map(|status| status.container_statuses.iter().all(|one| one.ready)),
            )
        });
        let existing = [
            self.observed.service.is_some(),
            self.observed.proxy_config.is_some(),
            self.observed.network_policy.is_some(),
            self.observed.disruption_budget.is_some(),
            self.observed.claim.is_some(),
            self.is_claim_terminating(),
            self.observed.certificate.is_some(),
        ];
        let node = (&self.node.spec, &self.node.metadata.generation, &self.node.status);
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(&node).unwrap().hash(&mut hasher);
        (set, pod, existing, &self.pod_deletions, &self.history).hash(&mut hasher);
        (self.is_answer_pending, self.is_issuer_down).hash(&mut hasher);
        for (name, secret) in &self.secrets {
            (name, json!(secret.metadata.owner_references).to_string()).hash(&mut hasher);
        }
        let Sidecar { up, ready, pod_has_tls: _, tls, tasks, failures } = &self.sidecar;
        (up, ready, tls, failures).hash(&mut hasher);
        for (id, (_, state, run)) in tasks {
            (id, format!("{state:?}"), run).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// The label that names the StatefulSet revision a pod was created from.
const REVISION: &str = "controller-revision-hash";

/// Returns a StatefulSet as the operator observes it.
pub fn to_observed(set: &StatefulSet) -> Arc<ObservedStatefulSet> {
    Arc::new(ObservedStatefulSet::try_from(set).unwrap())
}

/// Returns the StatefulSet that was observed.
pub fn to_stateful_set(observed: &ObservedStatefulSet) -> StatefulSet {
    serde_json::from_value(json!(observed)).unwrap()
}

/// Adds an object to the observed state, as the API server returned it.
fn set_observed(observed: &mut Observed, object: Object) {
    match object {
        Object::StatefulSet(object) => observed.stateful_set = Some(to_observed(&object)),
        Object::Service(object) => observed.service = Some(Arc::new(*object)),
        Object::ConfigMap(object) => observed.proxy_config = Some(Arc::new(*object)),
        Object::NetworkPolicy(object) => observed.network_policy = Some(Arc::new(*object)),
        Object::DisruptionBudget(object) => observed.disruption_budget = Some(Arc::new(*object)),
        Object::Claim(object) => observed.claim = Some(Arc::new(*object)),
        Object::Certificate(object) => observed.certificate = Some(Arc::new(*object)),
        Object::Job(object) => observed.job = Some(Arc::new(*object)),
    }
}

fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            patch.iter().for_each(|(name, value)| merge(target.entry(name).or_insert(Value::Null), value));
        }
        (target, patch) => *target = patch.clone(),
    }
}

/// Marks a pod as being deleted.
pub fn mark_terminating(pod: &mut Arc<ObservedPod>) {
    let mut terminating = (**pod).clone();
    terminating.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-05-18T10:00:00Z")).unwrap());
    *pod = Arc::new(terminating);
}

fn revision(set: &StatefulSet) -> String {
    drift::hash(&set.spec.as_ref().map(|spec| &spec.template)).unwrap()
}
