//! Puts the controller of nodes together, and starts its tasks.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::SeiNode;
use api::cert_manager::Certificate;
use api::names::manager;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use plan::node::{SeenPod, SeenSet};
use runtime::admin::Admin;
use runtime::events::Events;
use runtime::lease::{Campaign, Claim, Leadership};
use runtime::metrics::Metrics;
use runtime::own_writes::OwnWrites;
use runtime::process::Process;
use runtime::queue::{Backoff, Priority, Queue};
use runtime::tasks::{Phase, Tasks};
use runtime::watch::{Cache, Change, Guarded, SecretsOfAll, Watch};
use runtime::write::Writer;
use runtime::{Key, controller, while_leading};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::objects::{Certificates, Objects};
use super::pass::turn;
use super::seen::Seen;
use super::ties::Ties;
use super::watches::{
    Nodes, keep_of_claim, keep_of_node, keep_of_secret, labelled, of_claim, of_node, of_owner, of_secret,
};
use super::{Controller, Error};
use crate::metrics::{CONTROLLER, NodeMetrics};
use crate::secrets::{SecretMeta, Secrets};
use crate::settings::Settings;
use crate::sidecar::{Client as SidecarClient, Sidecars};

/// The longest that one turn of a node may take: longer than all deadlines of its requests in a row would be a defect.
const TURN_WITHIN: Duration = Duration::from_secs(120);

/// Waits of a node whose pass failed.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(60) };

/// How often it is looked whether cert-manager has come, where it is not there.
const BETWEEN_LOOKS: Duration = Duration::from_secs(30);

/// What the controller is started with.
struct Start<'a> {
    settings: &'a Settings,
    client: &'a Client,
    metrics: &'a Metrics,
    admin: &'a Admin,
    tasks: &'a mut Tasks,
}

/// Starts the controller of nodes.
pub(crate) fn start(settings: &Settings, process: &mut Process) -> Result<(), SecretsOfAll> {
    let Process { client, metrics, admin, tasks, .. } = process;
    let (client, metrics, admin) = (&*client, &*metrics, &*admin);
    let mut start = Start { settings, client, metrics, admin, tasks };
    let queue = Queue::new(settings.max_concurrent, BACKOFF, metrics.queue(CONTROLLER));
    let controller = Arc::new(start.controller(&queue)?);
    start.shows(&queue, &controller);
    let run = controller::Controller::new(CONTROLLER, queue, TURN_WITHIN, metrics);
    start.lead(controller, run);
    Ok(())
}

impl Start<'_> {
    /// The watches, each a task of its own, and the controller that reads what they see.
    fn controller(&mut self, queue: &Nodes) -> Result<Controller, SecretsOfAll> {
        let every = watcher::Config::default;
        let (own, own_claims) = (self.own_writes(), self.own_writes());
        let ties = Arc::<Ties>::default();
        let node_caches = self.watch(&every(), keep_of_node, || of_node(queue, &own, &ties))?;
        let all = {
            let caches = node_caches.clone();
            move |show: &mut dyn FnMut(&SeiNode)| caches.iter().for_each(|cache| cache.each(&mut *show))
        };
        let objects = Objects {
            stateful_sets: self.seen::<SeenSet>(queue, |_| {})?,
            pods: self.seen(queue, SeenPod::forget_readiness)?,
            services: self.seen::<Service>(queue, |_| {})?,
            config_maps: self.seen::<ConfigMap>(queue, |_| {})?,
            network_policies: self.seen::<NetworkPolicy>(queue, |_| {})?,
            claims: {
                let caches = self.watch(&every(), keep_of_claim, || of_claim(queue, &own_claims, &ties))?;
                Seen::<PersistentVolumeClaim>::new(caches, own_claims)
            },
            jobs: self.seen::<Job>(queue, |_| {})?,
            certificates: self.certificates(queue)?,
            nodes: Seen::new(node_caches, own),
            ties: ties.clone(),
        };
        let (events, messenger) =
            Events::new(self.client.clone(), manager::NODE, &self.settings.identity, self.metrics);
        let stop = self.tasks.stop(Phase::Work);
        self.tasks.spawn(Phase::Work, "events", messenger.run(stop));
        let secrets = self.secrets(queue, &ties);
        let settings = self.settings;
        let sidecars = {
            let queue = queue.clone();
            let to =
                SidecarClient::new(settings.sidecar_address.clone(), settings.sidecar_token_file.clone());
            Sidecars::new(to, move |key| queue.add(key, Priority::High))
        };
        Ok(Controller {
            client: self.client.clone(),
            platform: settings.platform.clone(),
            objects,
            sidecars,
            secrets,
            events,
            metrics: NodeMetrics::new(self.metrics, all),
            memos: Mutex::default(),
        })
    }

    /// Watches of a kind: one of all namespaces, or one for each that is looked after.
    fn watch<K, T>(
        &mut self,
        config: &watcher::Config,
        keep: fn(&mut K),
        tell: impl Fn() -> T,
    ) -> Result<Vec<Cache<K>>, SecretsOfAll>
    where
        K: Watched,
        T: Fn(&Change<K>) + Send + Sync + 'static,
    {
        let mut caches = Vec::new();
        for api in apis::<Guarded<K>>(self.client, &self.settings.watch_namespaces) {
            let watch = Watch::of(api, config.clone(), self.metrics)?.keeping(keep).tell(tell());
            caches.push(watch.cache());
            self.admin.lives_by(watch.progress());
            self.tasks.spawn_until_stopped(Phase::Intake, format!("watch {}", K::plural(&())), watch.run());
        }
        Ok(caches)
    }

    /// Objects of a kind that carry the label of their node.
    fn seen<K: Watched>(&mut self, queue: &Nodes, keep: fn(&mut K)) -> Result<Seen<K>, SecretsOfAll> {
        let own = self.own_writes();
        let caches = self.watch(&labelled(), keep, || of_owner::<K>(queue, &own))?;
        Ok(Seen::new(caches, own))
    }

    fn own_writes(&self) -> Arc<OwnWrites> {
        Arc::new(OwnWrites::new(CONTROLLER, self.metrics))
    }

    /// Certificates, which are watched as soon as there is such a kind.
    fn certificates(&mut self, queue: &Nodes) -> Result<Certificates, SecretsOfAll> {
        let (kind_is_there, there) = watch::channel(None);
        let kind_is_there = Arc::new(kind_is_there);
        let own = self.own_writes();
        let mut caches = Vec::new();
        for api in apis::<Guarded<Certificate>>(self.client, &self.settings.watch_namespaces) {
            let watch = Watch::of(api, labelled(), self.metrics)?.tell(of_owner::<Certificate>(queue, &own));
            caches.push(watch.cache());
            self.admin.lives_by(watch.progress());
            let (client, kind_is_there) = (self.client.clone(), kind_is_there.clone());
            self.tasks.spawn_until_stopped(Phase::Intake, "watch certificates", async move {
                until_there(&client, &kind_is_there).await;
                watch.run().await;
            });
        }
        Ok(Certificates { seen: Seen::new(caches, own), there })
    }

    fn secrets(&mut self, queue: &Nodes, ties: &Arc<Ties>) -> Secrets {
        let mut watches = Vec::new();
        for api in apis::<SecretMeta>(self.client, &self.settings.watch_namespaces) {
            watches.push(
                Watch::of_metadata(api, watcher::Config::default(), self.metrics).keeping(keep_of_secret),
            );
        }
        let caches = watches.iter().map(Watch::cache).collect();
        let secrets = Secrets::new(self.client.clone(), caches);
        for watch in watches {
            let forgetful = secrets.clone();
            let watch = watch.tell(move |change| forgetful.changed(change)).tell(of_secret(queue, ties));
            self.admin.lives_by(watch.progress());
            self.tasks.spawn_until_stopped(Phase::Intake, "watch secrets", watch.run());
        }
        secrets
    }

    fn shows(&self, queue: &Nodes, controller: &Arc<Controller>) {
        let lists = controller.clone();
        self.admin.ready_when("caches", move || {
            if lists.objects.is_synced() { Ok(()) } else { Err("the first lists are not complete".into()) }
        });
        let (queue, asked) = (queue.clone(), controller.clone());
        self.admin.shows("seinode", move || {
            let state = queue.state();
            let failing: BTreeMap<String, u32> =
                state.failing.into_iter().map(|(key, count)| (key.to_string(), count)).collect();
            let questions = asked.sidecars.remembered();
            json!({ "waiting": state.waiting, "running": state.running, "failing": failing, "questions": questions })
        });
    }

    /// Works while this process leads, or for ever when there is no election.
    fn lead(&mut self, controller: Arc<Controller>, run: controller::Controller<Key>) {
        let stop = self.tasks.stop(Phase::Work);
        let (client, metrics) = (self.client.clone(), self.metrics.clone());
        let work = move |claim: Claim, stop: CancellationToken| {
            let writer = Writer::new(client.clone(), manager::NODE, claim, &metrics);
            let controller = controller.clone();
            let run = run.clone();
            async move {
                controller.objects.synced().await;
                controller.secrets.synced().await;
                run.run(stop, move |key| one(controller.clone(), writer.clone(), key)).await;
            }
        };
        let Some(lease) = self.settings.lease.clone() else {
            self.tasks.spawn(Phase::Work, "nodes", work(Claim::alone(), stop));
            return;
        };
        let (campaign, leadership) = Campaign::new(self.client.clone(), lease, self.metrics);
        self.admin.lives_by(campaign.progress());
        let release = self.tasks.stop(Phase::Release);
        self.tasks.spawn(Phase::Release, "lease", campaign.run(release));
        let shown = leadership.clone();
        self.admin.shows("leading", move || json!(matches!(*shown.borrow(), Leadership::Leading(_))));
        self.tasks.spawn(Phase::Work, "nodes", while_leading(leadership, stop, work));
    }
}

/// One turn of a node; a failure is counted.
async fn one(controller: Arc<Controller>, writer: Writer, key: Key) -> Result<Option<Duration>, Error> {
    let namespace = key.namespace.clone();
    let ended = turn(controller.clone(), writer, key).await;
    if ended.is_err() {
        controller.metrics.failed(&namespace);
    }
    ended
}

/// A kind that is watched.
trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + PartialEq
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + PartialEq
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// All namespaces, or each that is looked after.
fn apis<K>(client: &Client, namespaces: &[String]) -> Vec<Api<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    if namespaces.is_empty() {
        return vec![Api::all(client.clone())];
    }
    namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect()
}

/// Waits until there is a kind of certificates. A watch of a kind that is not there would break for ever, and count as dead.
async fn until_there(client: &Client, told: &watch::Sender<Option<bool>>) {
    loop {
        let resources = client.list_api_group_resources("cert-manager.io/v1").await;
        let there = match &resources {
            Ok(list) => Some(list.resources.iter().any(|resource| resource.kind == "Certificate")),
            Err(kube::Error::Api(status)) if status.code == 404 => Some(false),
            // Not known: nothing is decided on it.
            Err(_) => None,
        };
        if there.is_some() {
            told.send_replace(there);
        }
        if there == Some(true) {
            return;
        }
        tokio::time::sleep(if there.is_none() { Duration::from_secs(1) } else { BETWEEN_LOOKS }).await;
    }
}
