//! Assembles the aggregator and starts its tasks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::manager;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use plan::kms::rollup::Rules;
use runtime::admin::Admin;
use runtime::events::Events;
use runtime::lease::{Campaign, Claim, Leadership};
use runtime::metrics::Metrics;
use runtime::own_writes::OwnWrites;
use runtime::process::Process;
use runtime::queue::{Backoff, Priority, Queue};
use runtime::tasks::{Phase, Tasks};
use runtime::watch::{Cache, Change, SecretsOfAll, Watch};
use runtime::write::Writer;
use runtime::{controller, while_leading};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::cluster_operator::ClusterOperatorWriter;
use super::deployed_keys::DeployedKeys;
use super::metrics::KmsMetrics;
use super::reconcile::{Aggregator, Error, Objects};
use super::settings::Settings;
use super::target::{ObjectRef, Target};
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
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(15) };

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
    client: &'a Client,
    metrics: &'a Metrics,
    admin: &'a Admin,
    tasks: &'a mut Tasks,
    queue: Arc<Queue<ObjectRef>>,
    /// Whether the first list of each watch is complete.
    synced: Vec<Box<dyn Fn() -> bool + Send + Sync>>,
}

/// Starts the aggregator.
pub(super) fn start(settings: &Settings, process: &mut Process) -> Result<(), SecretsOfAll> {
    let Process { client, metrics, admin, tasks, .. } = process;
    let (client, metrics, admin) = (&*client, &*metrics, &*admin);
    let queue = Queue::new(CONCURRENCY, BACKOFF, metrics.queue(CONTROLLER));
    let mut starter = Starter { settings, client, metrics, admin, tasks, queue, synced: Vec::new() };
    let caches = Arc::new(Caches {
        kube_api_server: starter.objects()?,
        openshift_api_server: starter.objects()?,
        authentication: starter.objects()?,
        kms_health: starter.objects()?,
    });
    let pods = starter.pods()?;
    let cluster_operator = starter.cluster_operator()?;
    let (events, event_sender) =
        Events::new(client.clone(), manager::KMS_AGGREGATOR, &settings.identity, metrics);
    let stop = starter.tasks.stop(Phase::Work);
    starter.tasks.spawn(Phase::Work, "events", event_sender.run(stop));
    let aggregator = Arc::new(Aggregator {
        client: client.clone(),
        rules: Rules {
            interval: settings.interval,
            margin: settings.skew_margin,
            read_degrades: settings.read_degrades,
        },
        deployed_keys: DeployedKeys::new(client.clone(), &settings.secret, settings.interval),
        pods,
        namespaces: settings.namespaces.iter().map(|(target, name)| (*target, name.clone())).collect(),
        cluster_operator,
        events,
        metrics: KmsMetrics::new(metrics),
        started: Instant::now(),
        memories: std::sync::Mutex::default(),
        nearly_full: std::sync::Mutex::default(),
    });
    starter.lead(aggregator, caches);
    Ok(())
}

impl Starter<'_> {
    /// Starts the watch of a target, if it is configured.
    fn objects<K: TargetResource>(&mut self) -> Result<Option<Objects<K>>, SecretsOfAll> {
        if !self.settings.targets.contains(&K::TARGET) {
            return Ok(None);
        }
        let config = match K::TARGET {
            Target::KmsHealth => watcher::Config::default(),
            _ => watch_by_name(CLUSTER),
        };
        let own_writes = Arc::new(OwnWrites::new(CONTROLLER, self.metrics));
        let (queue, echo) = (self.queue.clone(), own_writes.clone());
        let watch = Watch::<UntypedObject<K>>::of(Api::all(self.client.clone()), config, self.metrics)?;
        let watch = watch.tell(move |change: &Change<UntypedObject<K>>| {
            let object = change.object();
            let is_echo = matches!(change, Change::Changed(now, _) if echo.is_echo(&**now));
            if !is_echo {
                queue.add(ObjectRef { target: K::TARGET, name: object.name_any() }, Priority::High);
            }
        });
        let cache = watch.cache();
        self.run_watch(watch.progress(), cache.clone(), K::PLURAL, watch.run());
        Ok(Some(Objects { cache, own_writes }))
    }

    /// Starts the pod watches of targets whose API servers run as Deployments.
    fn pods(&mut self) -> Result<HashMap<Target, Pods>, SecretsOfAll> {
        let mut all = HashMap::new();
        for target in [Target::OpenShiftApiServer, Target::Authentication] {
            let Some(namespace) =
                self.settings.namespaces.get(&target).filter(|_| self.settings.targets.contains(&target))
            else {
                continue;
            };
            let config = watcher::Config::default().labels(&self.settings.pod_selector);
            let queue = self.queue.clone();
            let api = Api::namespaced(self.client.clone(), namespace);
            let watch = Watch::<Pod>::of(api, config, self.metrics)?.keeping(strip_pod);
            let watch = watch.tell(move |_: &Change<Pod>| {
                queue.add(ObjectRef { target, name: CLUSTER.into() }, Priority::Low);
            });
            let cache = watch.cache();
            self.run_watch(watch.progress(), cache.clone(), "pods", watch.run());
            all.insert(target, Pods(cache));
        }
        Ok(all)
    }

    /// Starts the watch of the ClusterOperator, if one is configured.
    fn cluster_operator(&mut self) -> Result<Option<ClusterOperatorWriter>, SecretsOfAll> {
        let Some((name, target)) = self.settings.cluster_operator.clone() else { return Ok(None) };
        let api = Api::all(self.client.clone());
        let queue = self.queue.clone();
        let watch = Watch::<UntypedObject<ClusterOperator>>::of(api, watch_by_name(&name), self.metrics)?;
        let watch = watch.tell(move |_: &Change<UntypedObject<ClusterOperator>>| {
            queue.add(ObjectRef { target, name: CLUSTER.into() }, Priority::Low);
        });
        let cache = watch.cache();
        self.run_watch(watch.progress(), cache.clone(), "clusteroperators", watch.run());
        Ok(Some(ClusterOperatorWriter { name, cache }))
    }

    fn run_watch<K: kube::Resource + Send + Sync + 'static>(
        &mut self,
        progress: runtime::progress::Progress,
        cache: Cache<K>,
        name: &str,
        run: impl Future<Output = ()> + Send + 'static,
    ) {
        self.admin.lives_by(progress);
        self.synced.push(Box::new(move || cache.is_synced()));
        self.tasks.spawn_until_stopped(Phase::Intake, format!("watch {name}"), run);
    }

    /// Runs the controller while this process is the leader, or always without leader election.
    fn lead(mut self, aggregator: Arc<Aggregator>, caches: Arc<Caches>) {
        let synced = Arc::new(std::mem::take(&mut self.synced));
        let lists = synced.clone();
        self.admin.ready_when("caches", move || {
            let complete = lists.iter().all(|synced| synced());
            if complete { Ok(()) } else { Err("caches are not synced".into()) }
        });
        let state = self.queue.clone();
        self.admin.shows(CONTROLLER, move || {
            let state = state.state();
            let failing: BTreeMap<String, u32> =
                state.failing.into_iter().map(|(object, count)| (object.to_string(), count)).collect();
            json!({ "waiting": state.waiting, "running": state.running, "failing": failing })
        });
        let stop = self.tasks.stop(Phase::Work);
        let run =
            controller::Controller::new(CONTROLLER, self.queue.clone(), RECONCILE_TIMEOUT, self.metrics);
        let (client, metrics, queue) = (self.client.clone(), self.metrics.clone(), self.queue.clone());
        let work = move |claim: Claim, stop: CancellationToken| {
            let writer = Writer::new(client.clone(), manager::KMS_AGGREGATOR, claim, &metrics);
            let (aggregator, caches, run) = (aggregator.clone(), caches.clone(), run.clone());
            let (synced, queue) = (synced.clone(), queue.clone());
            async move {
                while !synced.iter().all(|synced| synced()) {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                // Another process may have led since: the memory is too old to decide with.
                aggregator.reset_memories();
                caches.object_refs().into_iter().for_each(|object| queue.add(object, Priority::Low));
                run.run(stop, move |object| {
                    reconcile(aggregator.clone(), caches.clone(), writer.clone(), object)
                })
                .await;
            }
        };
        let Some(lease) = self.settings.lease.clone() else {
            self.tasks.spawn(Phase::Work, CONTROLLER, work(Claim::alone(), stop));
            return;
        };
        let (campaign, leadership) = Campaign::new(self.client.clone(), lease, self.metrics);
        self.admin.lives_by(campaign.progress());
        let release = self.tasks.stop(Phase::Release);
        self.tasks.spawn(Phase::Release, "lease", campaign.run(release));
        let observed = leadership.clone();
        self.admin.shows("leading", move || json!(matches!(*observed.borrow(), Leadership::Leading(_))));
        self.tasks.spawn(Phase::Work, CONTROLLER, while_leading(leadership, stop, work));
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
        Target::KubeApiServer => reconcile_in!(kube_api_server),
        Target::OpenShiftApiServer => reconcile_in!(openshift_api_server),
        Target::Authentication => reconcile_in!(authentication),
        Target::KmsHealth => reconcile_in!(kms_health),
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
