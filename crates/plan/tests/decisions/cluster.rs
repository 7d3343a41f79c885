//! A small abstract cluster around one node: an API server that stores, a StatefulSet controller, a kubelet and a sidecar,
//! each reduced to what the decision can see of it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use api::SeiNode;
use api::applied;
use api::names::annotation::APPLIED_HASH;
use api::names::container;
use api::sei_node::{Scheme, SeiNodeStatus};
use api::sidecar_wire::{TaskRequest, TaskResult, TaskState};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube_core::Resource;
use plan::node::{
    Action, Doomed, Health, Needs, Object, SecretSight, SeenPod, SeenSet, Served, Submission, TaskSight,
    World,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The cluster around one node.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The node as it is stored.
    pub node: SeiNode,
    /// What is stored beside it. Pods are here too.
    pub world: World,
    /// The sidecar's process and its store.
    pub sidecar: Sidecar,
    /// Uids that were given out.
    pub uids: u64,
    /// Plans that were made.
    pub plans: u64,
    /// Pods that the operator deleted, by the generation that the node had.
    pub cycles: BTreeMap<i64, u32>,
    /// How often each task was given, by id.
    pub given: BTreeMap<String, u32>,
    /// Writes of the operator to the API server.
    pub writes: u64,
    /// Minutes since the beginning.
    pub minutes: i64,
}

/// The sidecar of the node's pod.
#[derive(Clone, Debug, Default)]
pub struct Sidecar {
    /// A process serves.
    pub up: bool,
    /// It was told that seid may start.
    pub ready: bool,
    /// How its pod was made to serve.
    pub wants_tls: bool,
    /// How it is served.
    pub tls: bool,
    /// Its store, which is on the data volume.
    pub tasks: BTreeMap<String, (String, TaskState, u32)>,
    /// How often the next tasks fail.
    pub failures: u32,
}

impl Cluster {
    /// A node that was just created.
    pub fn new(node: SeiNode) -> Self {
        Self {
            node,
            world: World::default(),
            sidecar: Sidecar::default(),
            uids: 1,
            plans: 0,
            cycles: BTreeMap::new(),
            given: BTreeMap::new(),
            writes: 0,
            minutes: 0,
        }
    }

    /// Edits the spec.
    pub fn edit(&mut self, change: impl FnOnce(&mut SeiNode)) {
        change(&mut self.node);
        *self.node.metadata.generation.get_or_insert(1) += 1;
    }

    /// Stores a status, as the API server would: only onto what was read, which is so here.
    pub fn record(&mut self, status: &SeiNodeStatus) -> bool {
        if self.node.status.as_ref() == Some(status) {
            return false;
        }
        self.node.status = Some(status.clone());
        self.writes += 1;
        true
    }

    /// Answers what was asked.
    pub fn observe(&self, needs: &Needs, world: &mut World) {
        let reached = |tls: Scheme| self.sidecar.up && self.sidecar.tls == (tls == Scheme::Https);
        let away = || "no answer".to_owned();
        world.secrets = needs.secrets.iter().map(|name| (name.clone(), self.secret(name))).collect();
        if let Some(to) = &needs.health {
            world.sidecar.health = match (reached(to.scheme), self.sidecar.ready) {
                (false, _) => Health::Unreachable(away()),
                (true, true) => Health::Ready,
                (true, false) => Health::NotReady,
            };
        }
        if let Some((to, id)) = &needs.task {
            let sight = match (reached(to.scheme), self.sidecar.tasks.get(id)) {
                (false, _) => TaskSight::Unreachable(away()),
                (true, None) => TaskSight::NotFound,
                (true, Some((type_, state, run))) => TaskSight::Found(Box::new(TaskResult {
                    id: id.clone(),
                    task_type: type_.clone(),
                    status: *state,
                    run: *run,
                    params: None,
                    result: None,
                    error: (*state == TaskState::Failed).then(|| "it failed".into()),
                    submitted_at: serde_json::from_value(json!("2026-05-18T10:00:00.000000Z")).unwrap(),
                    completed_at: None,
                })),
            };
            world.sidecar.task = (id.clone(), sight);
        }
        if let Some(to) = &needs.served {
            world.sidecar.served =
                if reached(to.scheme) { Served::As(to.scheme, None) } else { Served::Otherwise(away()) };
        }
    }

    fn secret(&self, name: &str) -> SecretSight {
        super::certificate::secret(name)
            .map_or(SecretSight::Missing, |secret| SecretSight::Found(Arc::new(secret)))
    }

    /// Does what the operator asks for.
    pub fn act(&mut self, action: &Action, world: &mut World) {
        match action {
            Action::Apply(object) | Action::Create(object) => {
                self.writes += 1;
                let object = self.store(object);
                take_in(&mut self.world, object.clone());
                take_in(world, object);
            }
            Action::Delete(Doomed::Pod(pod)) => {
                self.writes += 1;
                *self.cycles.entry(self.node.metadata.generation.unwrap_or_default()).or_default() += 1;
                let uid = pod.metadata.uid.clone();
                for stored in [&mut self.world.pods, &mut world.pods] {
                    for pod in stored.iter_mut().filter(|pod| pod.metadata.uid == uid) {
                        going(pod);
                    }
                }
            }
            Action::Delete(Doomed::Certificate(_)) => {
                self.writes += 1;
                self.world.certificate = None;
                world.certificate = None;
            }
            Action::Delete(Doomed::Job(_)) => {
                self.writes += 1;
                self.world.job = None;
                world.job = None;
            }
            Action::Delete(Doomed::Service(_)) => {
                self.writes += 1;
                self.world.service = None;
                world.service = None;
            }
            Action::Submit(to, request) => {
                let id = request.id.clone().unwrap_or_default();
                let said = if self.sidecar.up && self.sidecar.tls == (to.scheme == Scheme::Https) {
                    self.submit(request);
                    Submission::Taken
                } else {
                    Submission::Unknown("no answer".into())
                };
                world.sidecar.submitted = Some((id, said));
                world.sidecar.task = Default::default();
            }
        }
    }

    fn submit(&mut self, request: &TaskRequest) {
        let id = request.id.clone().unwrap_or_default();
        *self.given.entry(id.clone()).or_default() += 1;
        let before = self.sidecar.tasks.get(&id).map(|(_, state, run)| (*state, *run));
        let run = match before {
            None => 1,
            Some((TaskState::Failed, run)) => run + 1,
            Some(_) => return,
        };
        self.sidecar.tasks.insert(id, (request.task_type.clone(), TaskState::Running, run));
    }

    /// The sidecar works: what is on ends.
    pub fn sidecar_works(&mut self) -> bool {
        if !self.sidecar.up {
            return false;
        }
        let mut worked = false;
        for (type_, state, _) in self.sidecar.tasks.values_mut().filter(|task| task.1 == TaskState::Running) {
            worked = true;
            // Only what may be tried again: anything else fails the plan, and rightly so.
            if self.sidecar.failures > 0 && type_ == "configure-genesis" {
                self.sidecar.failures -= 1;
                *state = TaskState::Failed;
                continue;
            }
            *state = TaskState::Completed;
            self.sidecar.ready |= type_ == "mark-ready";
        }
        worked
    }

    fn store(&mut self, object: &Object) -> Object {
        match object {
            Object::StatefulSet(wanted) => {
                let live = self.world.stateful_set.as_deref().map(whole).map(Arc::new);
                Object::StatefulSet(Box::new(self.stored(&**wanted, live)))
            }
            Object::Service(wanted) => {
                Object::Service(Box::new(self.stored(&**wanted, self.world.service.clone())))
            }
            Object::ConfigMap(wanted) => {
                Object::ConfigMap(Box::new(self.stored(&**wanted, self.world.proxy_config.clone())))
            }
            Object::NetworkPolicy(wanted) => {
                Object::NetworkPolicy(Box::new(self.stored(&**wanted, self.world.network_policy.clone())))
            }
            Object::Claim(wanted) => {
                Object::Claim(Box::new(self.stored(&**wanted, self.world.claim.clone())))
            }
            Object::Certificate(wanted) => {
                let mut live = self.stored(&**wanted, self.world.certificate.clone());
                // cert-manager issues at once.
                live.status =
                    serde_json::from_value(json!({ "conditions": [{ "type": "Ready", "status": "True" }] }))
                        .unwrap();
                Object::Certificate(Box::new(live))
            }
            Object::Job(wanted) => Object::Job(Box::new(self.stored(&**wanted, self.world.job.clone()))),
        }
    }

    /// An object as the API server stores it: with a uid, a generation that counts changes of the spec, and the status kept.
    fn stored<K>(&mut self, wanted: &K, live: Option<Arc<K>>) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned,
    {
        let mut signed = wanted.clone();
        applied::sign(&mut signed, &applied::hash(wanted).unwrap());
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

    /// The StatefulSet's controller: sees the template, makes the pod.
    pub fn stateful_set_works(&mut self) -> bool {
        let Some(set) = self.world.stateful_set.as_deref().map(whole) else { return false };
        let mut changed = false;
        let revision = revision(&set);
        let status = set.status.clone().unwrap_or_default();
        if status.observed_generation != set.metadata.generation
            || status.update_revision.as_deref() != Some(&revision)
        {
            let mut seen = set.clone();
            let status = seen.status.get_or_insert_default();
            status.observed_generation = set.metadata.generation;
            status.update_revision = Some(revision.clone());
            self.world.stateful_set = Some(as_seen(&seen));
            changed = true;
        }
        if self.world.pods.is_empty() {
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
            self.sidecar.wants_tls = json!(pod.spec).to_string().contains("--secure-listen-address");
            self.world.pods = vec![Arc::new(serde_json::from_value(json!(pod)).unwrap())];
            changed = true;
        }
        changed
    }

    /// The kubelet: ends what is to end, starts what is there.
    pub fn kubelet_works(&mut self) -> bool {
        let before = self.world.pods.len();
        self.world.pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        if self.world.pods.len() != before {
            self.sidecar.up = false;
            self.sidecar.ready = false;
            return true;
        }
        let Some(pod) = self.world.pods.first().filter(|pod| pod.status.is_none()) else { return false };
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
        self.sidecar.tls = self.sidecar.wants_tls;
        self.sidecar.up = true;
        self.sidecar.ready = false;
        self.world.pods = vec![Arc::new(running)];
        true
    }

    /// Somebody deletes the pod.
    pub fn pod_is_deleted(&mut self) {
        self.world.pods.iter_mut().for_each(going);
    }

    /// The sidecar's process ends and comes again; what it did not finish is begun again.
    pub fn sidecar_restarts(&mut self) {
        self.sidecar.ready = false;
    }

    /// What tells states apart: everything but counters. An object is told by what it was applied from.
    pub fn fingerprint(&self) -> u64 {
        let set = self.world.stateful_set.as_deref().map(whole).map(|set| {
            let hash = set.metadata.annotations.as_ref().and_then(|all| all.get(APPLIED_HASH)).cloned();
            let status = set
                .status
                .as_ref()
                .map(|status| (status.observed_generation, status.update_revision.clone()));
            (set.metadata.generation, hash, status)
        });
        let pod = self.world.pods.first().map(|pod| {
            let revision = pod.metadata.labels.as_ref().and_then(|all| all.get(REVISION)).cloned();
            (
                pod.metadata.uid.clone(),
                revision,
                pod.metadata.deletion_timestamp.is_some(),
                pod.status.is_some(),
            )
        });
        let there = [
            self.world.service.is_some(),
            self.world.proxy_config.is_some(),
            self.world.network_policy.is_some(),
            self.world.claim.is_some(),
            self.world.certificate.is_some(),
        ];
        let node = (&self.node.spec, &self.node.metadata.generation, &self.node.status);
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(&node).unwrap().hash(&mut hasher);
        (set, pod, there, &self.cycles).hash(&mut hasher);
        let Sidecar { up, ready, wants_tls: _, tls, tasks, failures } = &self.sidecar;
        (up, ready, tls, failures).hash(&mut hasher);
        for (id, (_, state, run)) in tasks {
            (id, format!("{state:?}"), run).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Says which revision of a StatefulSet's template a pod was made from.
const REVISION: &str = "controller-revision-hash";

/// A StatefulSet, as the operator would see it.
pub fn as_seen(set: &StatefulSet) -> Arc<SeenSet> {
    Arc::new(SeenSet::try_from(set).unwrap())
}

/// The StatefulSet that was seen.
pub fn whole(seen: &SeenSet) -> StatefulSet {
    serde_json::from_value(json!(seen)).unwrap()
}

/// An object as the API server returned it: from now on it is what was seen.
fn take_in(world: &mut World, object: Object) {
    match object {
        Object::StatefulSet(object) => world.stateful_set = Some(as_seen(&object)),
        Object::Service(object) => world.service = Some(Arc::new(*object)),
        Object::ConfigMap(object) => world.proxy_config = Some(Arc::new(*object)),
        Object::NetworkPolicy(object) => world.network_policy = Some(Arc::new(*object)),
        Object::Claim(object) => world.claim = Some(Arc::new(*object)),
        Object::Certificate(object) => world.certificate = Some(Arc::new(*object)),
        Object::Job(object) => world.job = Some(Arc::new(*object)),
    }
}

fn going(pod: &mut Arc<SeenPod>) {
    let mut gone = (**pod).clone();
    gone.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-05-18T10:00:00Z")).unwrap());
    *pod = Arc::new(gone);
}

fn revision(set: &StatefulSet) -> String {
    applied::hash(&set.spec.as_ref().map(|spec| &spec.template)).unwrap()
}
