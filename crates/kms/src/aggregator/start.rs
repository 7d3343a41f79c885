//! Assembles the aggregator and starts its tasks.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::kms::KmsTarget;
use api::names::manager;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use plan::kms::rollup::RollupRules;
use runtime::controller::Controller;
use runtime::own_writes::OwnWrites;
use runtime::process::{self, Process};
use runtime::queue::{Backoff, Priority, Queue};
use runtime::watch::{Cache, Change, SyncGroup, Watch};
use runtime::write::Writer;
use serde::de::DeserializeOwned;

use super::cluster_operator::ClusterOperatorWriter;
use super::deployed_keys::DeployedKeys;
use super::metrics::KmsMetrics;
use super::reconcile::{Aggregator, Error, Objects};
use super::settings::Settings;
use super::target::ObjectRef;
use super::target_resource::{
    Authentication, ClusterOperator, KmsHealth, KubeApiServer, OpenShiftApiServer, TargetResource,
    UntypedObject, watch_by_name,
};

/// Name of the controller in metrics.
const CONTROLLER: &str = "kms-aggregator";

/// Maximum concurrent reconciles. There is one object of most kinds.
const CONCURRENCY: usize = 8;

/// Timeout of one reconcile.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(60);

/// Backoff of a failed reconcile. Short, because plugin failures are urgent.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(15) };

/// Name of the only object of each OpenShift kind.
const CLUSTER: &str = "cluster";

/// Pods of an API server that runs as a Deployment.
pub(super) struct Pods(Cache<Pod>);

impl Pods {
    pub(super) fn all(&self) -> Vec<Arc<Pod>> {
        self.0.all()
    }
}

/// Caches of the configured targets.
struct Caches {
    kube_api_server: Option<Objects<KubeApiServer>>,
    openshift_api_server: Option<Objects<OpenShiftApiServer>>,
    authentication: Option<Objects<Authentication>>,
    kms_health: Option<Objects<KmsHealth>>,
}

/// Starts the watches and the controller.
struct Starter<'a> {
    settings: &'a Settings,
    process: &'a mut Process,
    queue: Arc<Queue<ObjectRef>>,
    /// The caches of all watches.
    synced: SyncGroup,
}

/// Starts the aggregator.
pub(super) fn start(settings: &Settings, process: &mut Process) -> Result<(), process::Error> {
    let queue = Queue::new(CONCURRENCY, BACKOFF, process.metrics.queue(CONTROLLER));
    let mut starter = Starter { settings, process, queue, synced: SyncGroup::default() };
    let caches = Arc::new(Caches {
        kube_api_server: starter.watch_objects()?,
        openshift_api_server: starter.watch_objects()?,
        authentication: starter.watch_objects()?,
        kms_health: starter.watch_objects()?,
    });
    let pods = starter.watch_pods()?;
    let cluster_operator = starter.watch_cluster_operator()?;
    let events = starter.process.spawn_events(manager::KMS_AGGREGATOR, &settings.identity);
    let client = &starter.process.client;
    let aggregator = Arc::new(Aggregator {
        client: client.clone(),
        rules: RollupRules {
            interval: settings.interval,
            margin: settings.skew_margin,
            read_degrades: settings.read_degrades,
        },
        deployed_keys: DeployedKeys::new(client.clone(), &settings.secret, settings.interval),
        pods,
        namespaces: settings.namespaces.iter().map(|(target, name)| (*target, name.clone())).collect(),
        cluster_operator,
        events,
        metrics: KmsMetrics::new(&starter.process.metrics),
        started: Instant::now(),
        memories: std::sync::Mutex::default(),
        nearly_full: std::sync::Mutex::default(),
    });
    starter.lead(aggregator, caches);
    Ok(())
}

impl Starter<'_> {
    /// Starts the watch of a target, if it is configured.
    fn watch_objects<K: TargetResource>(&mut self) -> Result<Option<Objects<K>>, process::Error> {
        if !self.settings.targets.contains(&K::TARGET) {
            return Ok(None);
        }
        let config = match K::TARGET {
            KmsTarget::KmsHealth => watcher::Config::default(),
            _ => watch_by_name(CLUSTER),
        };
        let own_writes = Arc::new(OwnWrites::new(CONTROLLER, &self.process.metrics));
        let (queue, echo) = (self.queue.clone(), own_writes.clone());
        let api = Api::all(self.process.client.clone());
        let watch = Watch::<UntypedObject<K>>::new(api, config, &self.process.metrics)?;
        let cache = self.spawn_watch(watch.on_change(move |change| {
            let object = change.object();
            let is_echo = matches!(change, Change::Applied(now, _) if echo.is_echo(&**now));
            if !is_echo {
                queue.add(ObjectRef { target: K::TARGET, name: object.name_any() }, Priority::High);
            }
        }));
        Ok(Some(Objects { cache, own_writes }))
    }

    /// Starts the pod watches of targets whose API servers run as Deployments.
    fn watch_pods(&mut self) -> Result<HashMap<KmsTarget, Pods>, process::Error> {
        let mut all = HashMap::new();
        for target in [KmsTarget::OpenShiftApiServer, KmsTarget::Authentication] {
            let Some(namespace) =
                self.settings.namespaces.get(&target).filter(|_| self.settings.targets.contains(&target))
            else {
                continue;
            };
            let config = watcher::Config::default().labels(&self.settings.pod_selector);
            let queue = self.queue.clone();
            let api = Api::namespaced(self.process.client.clone(), namespace);
            let watch = Watch::<Pod>::new(api, config, &self.process.metrics)?.modify(strip_pod);
            let cache = self.spawn_watch(watch.on_change(move |_| {
                queue.add(ObjectRef { target, name: CLUSTER.into() }, Priority::Low);
            }));
            all.insert(target, Pods(cache));
        }
        Ok(all)
    }

    /// Starts the watch of the ClusterOperator, if one is configured.
    fn watch_cluster_operator(&mut self) -> Result<Option<ClusterOperatorWriter>, process::Error> {
        let Some((name, target)) = self.settings.cluster_operator.clone() else { return Ok(None) };
        let api = Api::all(self.process.client.clone());
        let queue = self.queue.clone();
        let watch =
            Watch::<UntypedObject<ClusterOperator>>::new(api, watch_by_name(&name), &self.process.metrics)?;
        let cache = self.spawn_watch(watch.on_change(move |_| {
            queue.add(ObjectRef { target, name: CLUSTER.into() }, Priority::Low);
        }));
        Ok(Some(ClusterOperatorWriter { name, cache }))
    }

    fn spawn_watch<K>(&mut self, watch: Watch<K>) -> Cache<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let cache = self.process.spawn_watch(watch);
        self.synced.add(&cache);
        cache
    }

    /// Runs the controller while this process is the leader, or always without leader election.
    fn lead(self, aggregator: Arc<Aggregator>, caches: Arc<Caches>) {
        let Self { settings, process, queue, synced } = self;
        process.ready_when_synced({
            let synced = synced.clone();
            move || synced.is_synced()
        });
        process.admin.add_debug_state(CONTROLLER, {
            let queue = queue.clone();
            move || queue.state().to_json()
        });
        let (client, metrics) = (process.client.clone(), process.metrics.clone());
        let controller = Controller::new(CONTROLLER, queue.clone(), RECONCILE_TIMEOUT, &metrics);
        process.spawn_leader_elected(CONTROLLER, settings.lease.clone(), move |claim, stop| {
            let writer = Writer::new(client.clone(), manager::KMS_AGGREGATOR, claim, &metrics);
            let (aggregator, caches, controller) = (aggregator.clone(), caches.clone(), controller.clone());
            let (synced, queue) = (synced.clone(), queue.clone());
            async move {
                synced.wait().await;
                // Another process may have led since: the memory is too old to decide with.
                aggregator.reset_memories();
                caches.object_refs().into_iter().for_each(|object| queue.add(object, Priority::Low));
                controller
                    .run(stop, move |object| {
                        reconcile(aggregator.clone(), caches.clone(), writer.clone(), object)
                    })
                    .await;
            }
        });
    }
}

impl Caches {
    fn object_refs(&self) -> Vec<ObjectRef> {
        fn refs<K: TargetResource>(objects: Option<&Objects<K>>) -> Vec<ObjectRef> {
            let all = objects.map(|objects| objects.cache.all()).unwrap_or_default();
            all.iter().map(|one| ObjectRef { target: K::TARGET, name: one.name_any() }).collect()
        }
        let mut all = refs(self.kube_api_server.as_ref());
        all.extend(refs(self.openshift_api_server.as_ref()));
        all.extend(refs(self.authentication.as_ref()));
        all.extend(refs(self.kms_health.as_ref()));
        all
    }
}

async fn reconcile(
    aggregator: Arc<Aggregator>,
    caches: Arc<Caches>,
    writer: Writer,
    object: ObjectRef,
) -> Result<Option<Duration>, Error> {
    macro_rules! reconcile_in {
        ($objects:ident) => {
            match &caches.$objects {
                Some(objects) => aggregator.reconcile(objects, &writer, &object).await,
                None => Ok(None),
            }
        };
    }
    match object.target {
        KmsTarget::KubeApiServer => reconcile_in!(kube_api_server),
        KmsTarget::OpenShiftApiServer => reconcile_in!(openshift_api_server),
        KmsTarget::Authentication => reconcile_in!(authentication),
        KmsTarget::KmsHealth => reconcile_in!(kms_health),
    }
}

/// Drops all fields of a pod but labels, node and conditions before it is cached.
fn strip_pod(pod: &mut Pod) {
    pod.metadata.annotations = None;
    if let Some(spec) = &mut pod.spec {
        let node_name = spec.node_name.take();
        *spec = k8s_openapi::api::core::v1::PodSpec { node_name, ..Default::default() };
    }
    if let Some(status) = &mut pod.status {
        let conditions = status.conditions.take();
        *status = k8s_openapi::api::core::v1::PodStatus { conditions, ..Default::default() };
    }
}
