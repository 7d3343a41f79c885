//! Puts the aggregator together, and starts its tasks.

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

use super::cluster_operator::Shown;
use super::deployed::Deployed;
use super::metrics::KmsMetrics;
use super::pass::{Aggregator, Error, Objects};
use super::resource::{
    Authentication, ClusterOperator, KmsHealth, KubeApiServer, OpenShiftApiServer, Raw, Reported, named,
};
use super::settings::Settings;
use super::target::{Place, Target};

/// The aggregator, as metrics name it.
const CONTROLLER: &str = "kms-aggregator";

/// How many objects are looked at at once. There is one of each kind.
const AT_ONCE: usize = 8;

/// The longest that one look may take.
const LOOK_WITHIN: Duration = Duration::from_secs(60);

/// Waits of an object whose look failed: short, since what it is about is urgent.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(15) };

/// The one object of each of OpenShift's kinds.
const CLUSTER: &str = "cluster";

/// Pods of an API server that is a Deployment.
pub(super) struct Pods(Cache<Pod>);

impl Pods {
    pub(super) fn all(&self) -> Vec<Arc<Pod>> {
        self.0.all()
    }
}

/// The objects of each kind that is looked after.
struct All {
    kube_api_server: Option<Objects<KubeApiServer>>,
    openshift_api_server: Option<Objects<OpenShiftApiServer>>,
    authentication: Option<Objects<Authentication>>,
    kms_health: Option<Objects<KmsHealth>>,
}

struct Start<'a> {
    settings: &'a Settings,
    client: &'a Client,
    metrics: &'a Metrics,
    admin: &'a Admin,
    tasks: &'a mut Tasks,
    queue: Arc<Queue<Place>>,
    /// Whether the first list of each watch is complete.
    synced: Vec<Box<dyn Fn() -> bool + Send + Sync>>,
}

/// Starts the aggregator.
pub(super) fn start(settings: &Settings, process: &mut Process) -> Result<(), SecretsOfAll> {
    let Process { client, metrics, admin, tasks, .. } = process;
    let (client, metrics, admin) = (&*client, &*metrics, &*admin);
    let queue = Queue::new(AT_ONCE, BACKOFF, metrics.queue(CONTROLLER));
    let mut start = Start { settings, client, metrics, admin, tasks, queue, synced: Vec::new() };
    let all = Arc::new(All {
        kube_api_server: start.objects()?,
        openshift_api_server: start.objects()?,
        authentication: start.objects()?,
        kms_health: start.objects()?,
    });
    let pods = start.pods()?;
    let shown = start.shown()?;
    let (events, messenger) =
        Events::new(client.clone(), manager::KMS_AGGREGATOR, &settings.identity, metrics);
    let stop = start.tasks.stop(Phase::Work);
    start.tasks.spawn(Phase::Work, "events", messenger.run(stop));
    let aggregator = Arc::new(Aggregator {
        client: client.clone(),
        rules: Rules {
            interval: settings.interval,
            margin: settings.skew_margin,
            read_degrades: settings.read_degrades,
        },
        deployed: Deployed::new(client.clone(), &settings.secret, settings.interval),
        pods,
        namespaces: settings.namespaces.iter().map(|(target, name)| (*target, name.clone())).collect(),
        shown,
        events,
        metrics: KmsMetrics::new(metrics),
        begin: Instant::now(),
        memories: std::sync::Mutex::default(),
        crowded: std::sync::Mutex::default(),
    });
    start.lead(aggregator, all);
    Ok(())
}

impl Start<'_> {
    /// A watch of a kind, if it is looked after.
    fn objects<K: Reported>(&mut self) -> Result<Option<Objects<K>>, SecretsOfAll> {
        if !self.settings.targets.contains(&K::TARGET) {
            return Ok(None);
        }
        let config = match K::TARGET {
            Target::KmsHealth => watcher::Config::default(),
            _ => named(CLUSTER),
        };
        let own = Arc::new(OwnWrites::new(CONTROLLER, self.metrics));
        let (queue, echo) = (self.queue.clone(), own.clone());
        let watch = Watch::<Raw<K>>::of(Api::all(self.client.clone()), config, self.metrics)?;
        let watch = watch.tell(move |change: &Change<Raw<K>>| {
            let object = change.object();
            let told = matches!(change, Change::Changed(now, _) if echo.is_echo(&**now));
            if !told {
                queue.add(Place { target: K::TARGET, name: object.name_any() }, Priority::High);
            }
        });
        let cache = watch.cache();
        self.watched(watch.progress(), cache.clone(), K::PLURAL, watch.run());
        Ok(Some(Objects { cache, own }))
    }

    /// Watches of pods of those kinds whose API servers are Deployments.
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
            let watch = Watch::<Pod>::of(api, config, self.metrics)?.keeping(keep_of_pod);
            let watch = watch.tell(move |_: &Change<Pod>| {
                queue.add(Place { target, name: CLUSTER.into() }, Priority::Low);
            });
            let cache = watch.cache();
            self.watched(watch.progress(), cache.clone(), "pods", watch.run());
            all.insert(target, Pods(cache));
        }
        Ok(all)
    }

    /// The ClusterOperator, if there is one to show conditions on.
    fn shown(&mut self) -> Result<Option<Shown>, SecretsOfAll> {
        let Some((name, target)) = self.settings.cluster_operator.clone() else { return Ok(None) };
        let api = Api::all(self.client.clone());
        let queue = self.queue.clone();
        let watch = Watch::<Raw<ClusterOperator>>::of(api, named(&name), self.metrics)?;
        let watch = watch.tell(move |_: &Change<Raw<ClusterOperator>>| {
            queue.add(Place { target, name: CLUSTER.into() }, Priority::Low);
        });
        let cache = watch.cache();
        self.watched(watch.progress(), cache.clone(), "clusteroperators", watch.run());
        Ok(Some(Shown { name, cache }))
    }

    fn watched<K: kube::Resource + Send + Sync + 'static>(
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

    /// Works while this process leads, or for ever when there is no election.
    fn lead(mut self, aggregator: Arc<Aggregator>, all: Arc<All>) {
        let synced = Arc::new(std::mem::take(&mut self.synced));
        let lists = synced.clone();
        self.admin.ready_when("caches", move || {
            let complete = lists.iter().all(|synced| synced());
            if complete { Ok(()) } else { Err("the first lists are not complete".into()) }
        });
        let state = self.queue.clone();
        self.admin.shows(CONTROLLER, move || {
            let state = state.state();
            let failing: BTreeMap<String, u32> =
                state.failing.into_iter().map(|(place, count)| (place.to_string(), count)).collect();
            json!({ "waiting": state.waiting, "running": state.running, "failing": failing })
        });
        let stop = self.tasks.stop(Phase::Work);
        let run = controller::Controller::new(CONTROLLER, self.queue.clone(), LOOK_WITHIN, self.metrics);
        let (client, metrics, queue) = (self.client.clone(), self.metrics.clone(), self.queue.clone());
        let work = move |claim: Claim, stop: CancellationToken| {
            let writer = Writer::new(client.clone(), manager::KMS_AGGREGATOR, claim, &metrics);
            let (aggregator, all, run) = (aggregator.clone(), all.clone(), run.clone());
            let (synced, queue) = (synced.clone(), queue.clone());
            async move {
                while !synced.iter().all(|synced| synced()) {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                // Another process may have looked meanwhile: what was remembered before is too old to judge by.
                aggregator.forget();
                all.places().into_iter().for_each(|place| queue.add(place, Priority::Low));
                run.run(stop, move |place| look(aggregator.clone(), all.clone(), writer.clone(), place))
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
        let shown = leadership.clone();
        self.admin.shows("leading", move || json!(matches!(*shown.borrow(), Leadership::Leading(_))));
        self.tasks.spawn(Phase::Work, CONTROLLER, while_leading(leadership, stop, work));
    }
}

impl All {
    fn places(&self) -> Vec<Place> {
        fn of<K: Reported>(objects: Option<&Objects<K>>) -> Vec<Place> {
            let all = objects.map(|objects| objects.cache.all()).unwrap_or_default();
            all.iter().map(|one| Place { target: K::TARGET, name: one.name_any() }).collect()
        }
        let mut places = of(self.kube_api_server.as_ref());
        places.extend(of(self.openshift_api_server.as_ref()));
        places.extend(of(self.authentication.as_ref()));
        places.extend(of(self.kms_health.as_ref()));
        places
    }
}

async fn look(
    aggregator: Arc<Aggregator>,
    all: Arc<All>,
    writer: Writer,
    place: Place,
) -> Result<Option<Duration>, Error> {
    macro_rules! look {
        ($objects:ident) => {
            match &all.$objects {
                Some(objects) => aggregator.look(objects, &writer, &place).await,
                None => Ok(None),
            }
        };
    }
    match place.target {
        Target::KubeApiServer => look!(kube_api_server),
        Target::OpenShiftApiServer => look!(openshift_api_server),
        Target::Authentication => look!(authentication),
        Target::KmsHealth => look!(kms_health),
    }
}

/// What is read of a pod: where it runs, its revision, and whether it is ready.
fn keep_of_pod(pod: &mut Pod) {
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
