//! Assembles the aggregator and starts its tasks.

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
use super::inputs::{Input, Sources};
use super::metrics::KmsMetrics;
use super::reconcile::{Aggregator, Crowded, Error, Objects};
use super::servers::{reporter_container, strip_pod};
use super::settings::{CLUSTER, ClusterOperatorSettings, Settings};
use super::target::ObjectRef;
use super::target_resource::{
    Authentication, ClusterOperator, KmsHealth, KmsHealthReport, KubeApiServer, OpenShiftApiServer,
    TargetResource, UntypedObject, watch_by_name,
};

/// Name of the controller in metrics.
const CONTROLLER: &str = "kms-aggregator";

/// Maximum concurrent reconciles. There is one object of most kinds.
const CONCURRENCY: usize = 8;

/// Timeout of one reconcile.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(60);

/// Backoff of a failed reconcile. Short, because plugin failures are urgent.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(15) };

/// Delay after which an object with many reports is reconciled, so that reports that arrive together are evaluated together.
const COALESCE: Duration = Duration::from_millis(500);

/// How long a new leader waits for its inputs to be listed. Until then a missing pod would look like a gone one; after that the input
/// counts as unavailable.
const INPUT_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// The caches of the targets. Without them nothing can be evaluated.
    synced: SyncGroup,
    /// The caches of the inputs.
    inputs_synced: SyncGroup,
    crowded: Arc<Crowded>,
}

/// Starts the aggregator.
pub(super) fn start(settings: &Settings, process: &mut Process) -> Result<(), process::Error> {
    let queue = Queue::new(CONCURRENCY, BACKOFF, process.metrics.queue(CONTROLLER));
    let mut starter = Starter {
        settings,
        process,
        queue,
        synced: SyncGroup::default(),
        inputs_synced: SyncGroup::default(),
        crowded: Arc::default(),
    };
    let caches = Arc::new(Caches {
        kube_api_server: starter.watch_objects()?,
        openshift_api_server: starter.watch_objects()?,
        authentication: starter.watch_objects()?,
        kms_health: starter.watch_objects()?,
    });
    let sources = starter.watch_inputs(&caches)?;
    let cluster_operator = starter.watch_cluster_operator()?;
    let events = starter.process.spawn_events(manager::KMS_AGGREGATOR, &settings.identity);
    let client = &starter.process.client;
    let aggregator = Arc::new(Aggregator {
        client: client.clone(),
        rules: RollupRules {
            interval: settings.interval,
            margin: settings.skew_margin,
            read_degrades: settings.read_degrades,
            rollout_timeout: settings.rollout_timeout,
        },
        sources,
        cluster_operator,
        events,
        metrics: KmsMetrics::new(&starter.process.metrics),
        crowded: starter.crowded.clone(),
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
        let (enqueue, echo) = (self.enqueue(), own_writes.clone());
        let api = Api::all(self.process.client.clone());
        let watch = Watch::<UntypedObject<K>>::new(api, config, &self.process.metrics)?;
        let cache = self.spawn_watch(watch.on_change(move |change| {
            let object = change.object();
            let is_echo = matches!(change, Change::Applied(now, _) if echo.is_echo(&**now));
            if !is_echo {
                enqueue(ObjectRef { target: K::TARGET, name: object.name_any() });
            }
        }));
        Ok(Some(Objects { cache, own_writes }))
    }

    /// Starts the watches of inputs.
    fn watch_inputs(&mut self, caches: &Arc<Caches>) -> Result<Sources, process::Error> {
        let mut sources = Sources::default();
        for (target, namespace) in &self.settings.namespaces {
            if self.settings.targets.contains(target) {
                let config = watcher::Config::default().labels(&self.settings.pod_selector);
                let pods = self.watch_pods(*target, namespace, config, caches)?;
                sources.pods.insert(*target, pods);
            }
        }
        if self.settings.targets.contains(&KmsTarget::KmsHealth) {
            for namespace in &self.settings.subject_namespaces {
                let pods =
                    self.watch_pods(KmsTarget::KmsHealth, namespace, watcher::Config::default(), caches)?;
                sources.subjects.insert(namespace.clone(), pods);
            }
            sources.reports = Some(self.watch_reports()?);
        }
        Ok(sources)
    }

    /// Watches pods. Those without a reporter cause no reconcile: they are evaluated every interval.
    fn watch_pods(
        &mut self,
        target: KmsTarget,
        namespace: &str,
        config: watcher::Config,
        caches: &Arc<Caches>,
    ) -> Result<Input<Pod>, process::Error> {
        let (queue, caches) = (self.queue.clone(), caches.clone());
        let api = Api::namespaced(self.process.client.clone(), namespace);
        let watch = Watch::<Pod>::new(api, config, &self.process.metrics)?.modify(strip_pod);
        let watch = watch.on_change(move |change| {
            let before = match change {
                Change::Applied(_, before) => before.as_ref(),
                Change::Listed(_) | Change::Deleted(_) => None,
            };
            if before.into_iter().chain([change.object()]).any(|pod| reporter_container(pod).is_some()) {
                let objects = caches.object_refs().into_iter().filter(|object| object.target == target);
                objects.for_each(|object| queue.add(object, Priority::Low));
            }
        });
        Ok(self.spawn_input(format!("pods in {namespace}"), watch))
    }

    /// Watches the objects in which nodes store reports of KMSHealth objects.
    fn watch_reports(&mut self) -> Result<Input<UntypedObject<KmsHealthReport>>, process::Error> {
        let enqueue = self.enqueue();
        let api = Api::all(self.process.client.clone());
        let config = watcher::Config::default();
        let watch = Watch::<UntypedObject<KmsHealthReport>>::new(api, config, &self.process.metrics)?;
        let watch = watch.on_change(move |change| {
            if let Some(name) = change.object().spec["kmsHealth"].as_str() {
                enqueue(ObjectRef { target: KmsTarget::KmsHealth, name: name.to_owned() });
            }
        });
        Ok(self.spawn_input("kmshealthreports", watch))
    }

    fn spawn_input<K>(&mut self, what: impl Into<String>, watch: Watch<K>) -> Input<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let health = watch.health();
        let cache = self.process.spawn_optional_watch(watch);
        self.inputs_synced.add(&cache);
        Input::new(what, cache, health)
    }

    /// Returns a function that queues an object whose reports changed.
    fn enqueue(&self) -> impl Fn(ObjectRef) + Send + Sync + use<> {
        let (queue, crowded) = (self.queue.clone(), self.crowded.clone());
        move |object| {
            if crowded.contains(&object) {
                queue.add_after(object, COALESCE);
            } else {
                queue.add(object, Priority::High);
            }
        }
    }

    /// Starts the watch of the ClusterOperator, if one is configured.
    fn watch_cluster_operator(&mut self) -> Result<Option<ClusterOperatorWriter>, process::Error> {
        let Some(ClusterOperatorSettings { name, target, object }) = self.settings.cluster_operator.clone()
        else {
            return Ok(None);
        };
        let object = ObjectRef { target, name: object };
        let api = Api::all(self.process.client.clone());
        let (queue, changed) = (self.queue.clone(), object.clone());
        let watch =
            Watch::<UntypedObject<ClusterOperator>>::new(api, watch_by_name(&name), &self.process.metrics)?;
        let watch = watch.on_change(move |_| queue.add(changed.clone(), Priority::Low));
        let cache = self.process.spawn_optional_watch(watch);
        self.inputs_synced.add(&cache);
        Ok(Some(ClusterOperatorWriter { name, object, cache }))
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
        let Self { settings, process, queue, synced, inputs_synced, .. } = self;
        process.ready_when_synced({
            let synced = synced.clone();
            move || synced.is_synced()
        });
        process.admin.add_debug_state(CONTROLLER, {
            let queue = queue.clone();
            move || queue.state().to_json()
        });
        process.admin.add_debug_state("unavailableInputs", {
            let aggregator = aggregator.clone();
            move || {
                let all = aggregator.sources.unavailable();
                all.into_iter().map(|input| (input.what, input.why)).collect()
            }
        });
        let (client, metrics) = (process.client.clone(), process.metrics.clone());
        let controller = Controller::new(CONTROLLER, queue.clone(), RECONCILE_TIMEOUT, &metrics);
        process.spawn_leader_elected(CONTROLLER, settings.lease.clone(), move |claim, stop| {
            let writer = Writer::new(client.clone(), manager::KMS_AGGREGATOR, claim, &metrics);
            let (aggregator, caches, controller) = (aggregator.clone(), caches.clone(), controller.clone());
            let (synced, inputs_synced, queue) = (synced.clone(), inputs_synced.clone(), queue.clone());
            async move {
                synced.wait().await;
                // An input that cannot be listed is reported.
                let _ = tokio::time::timeout(INPUT_TIMEOUT, inputs_synced.wait()).await;
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
