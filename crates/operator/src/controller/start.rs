//! Builds the node controller and starts its tasks.

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
use plan::node::{ObservedPod, ObservedStatefulSet};
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

use super::Controller;
use super::object_store::ObjectStore;
use super::reconcile::reconcile;
use super::reference_index::ReferenceIndex;
use super::stores::{CertificateStore, ObjectStores};
use super::watches::{
    NodeQueue, on_claim, on_node, on_owned, on_secret, prune_claim, prune_node, prune_secret, with_node_label,
};
use crate::metrics::{CONTROLLER, NodeMetrics};
use crate::secrets::{SecretMeta, SecretReader};
use crate::settings::Settings;
use crate::sidecar::{Client as SidecarClient, Sidecars};

/// The deadline of one reconcile: more than the sum of the timeouts of all its requests.
const RECONCILE_DEADLINE: Duration = Duration::from_secs(120);

/// The backoff of a node whose reconcile failed.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(60) };

/// How often the operator checks whether cert-manager has been installed.
const CRD_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// How soon that check is retried after it failed.
const CRD_POLL_RETRY: Duration = Duration::from_secs(1);

/// Builds the controller from the parts of the process.
struct Builder<'a> {
    settings: &'a Settings,
    client: &'a Client,
    metrics: &'a Metrics,
    admin: &'a Admin,
    tasks: &'a mut Tasks,
}

/// Starts the node controller.
pub(crate) fn start(settings: &Settings, process: &mut Process) -> Result<(), SecretsOfAll> {
    let Process { client, metrics, admin, tasks, .. } = process;
    let (client, metrics, admin) = (&*client, &*metrics, &*admin);
    let mut builder = Builder { settings, client, metrics, admin, tasks };
    let queue = Queue::new(settings.max_concurrent_reconciles, BACKOFF, metrics.queue(CONTROLLER));
    let controller = Arc::new(builder.build_controller(&queue)?);
    builder.register_admin(&queue, &controller);
    let workers = controller::Controller::new(CONTROLLER, queue, RECONCILE_DEADLINE, metrics);
    builder.spawn_workers(controller, workers);
    Ok(())
}

impl Builder<'_> {
    /// Builds the controller, and spawns a task for each of its watches.
    fn build_controller(&mut self, queue: &NodeQueue) -> Result<Controller, SecretsOfAll> {
        let unfiltered = watcher::Config::default;
        let (node_writes, claim_writes) = (self.own_writes(), self.own_writes());
        let references = Arc::<ReferenceIndex>::default();
        let node_caches =
            self.watch(&unfiltered(), prune_node, || on_node(queue, &node_writes, &references))?;
        let for_each_node = {
            let caches = node_caches.clone();
            move |visit: &mut dyn FnMut(&SeiNode)| caches.iter().for_each(|cache| cache.each(&mut *visit))
        };
        let stores = ObjectStores {
            stateful_sets: self.watch_owned::<ObservedStatefulSet>(queue, |_| {})?,
            pods: self.watch_owned(queue, ObservedPod::drop_readiness_conditions)?,
            services: self.watch_owned::<Service>(queue, |_| {})?,
            config_maps: self.watch_owned::<ConfigMap>(queue, |_| {})?,
            network_policies: self.watch_owned::<NetworkPolicy>(queue, |_| {})?,
            claims: {
                let handler = || on_claim(queue, &claim_writes, &references);
                let caches = self.watch(&unfiltered(), prune_claim, handler)?;
                ObjectStore::<PersistentVolumeClaim>::new(caches, claim_writes)
            },
            jobs: self.watch_owned::<Job>(queue, |_| {})?,
            certificates: self.watch_certificates(queue)?,
            nodes: ObjectStore::new(node_caches, node_writes),
            references: references.clone(),
        };
        let (events, event_sender) =
            Events::new(self.client.clone(), manager::NODE, &self.settings.identity, self.metrics);
        let stop = self.tasks.stop(Phase::Work);
        self.tasks.spawn(Phase::Work, "events", event_sender.run(stop));
        let secrets = self.watch_secrets(queue, &references);
        let settings = self.settings;
        let sidecars = {
            let queue = queue.clone();
            let client =
                SidecarClient::new(settings.sidecar_address.clone(), settings.sidecar_token_file.clone());
            Sidecars::new(client, move |key| queue.add(key, Priority::High))
        };
        Ok(Controller {
            client: self.client.clone(),
            platform: settings.platform.clone(),
            stores,
            sidecars,
            secrets,
            events,
            metrics: NodeMetrics::new(self.metrics, for_each_node),
            render_caches: Mutex::default(),
        })
    }

    /// Watches a kind: all namespaces, or each watched namespace by itself.
    fn watch<K, H>(
        &mut self,
        config: &watcher::Config,
        prune: fn(&mut K),
        handler: impl Fn() -> H,
    ) -> Result<Vec<Cache<K>>, SecretsOfAll>
    where
        K: Watched,
        H: Fn(&Change<K>) + Send + Sync + 'static,
    {
        let mut caches = Vec::new();
        for api in apis::<Guarded<K>>(self.client, &self.settings.watch_namespaces) {
            let watch = Watch::of(api, config.clone(), self.metrics)?.keeping(prune).tell(handler());
            caches.push(watch.cache());
            self.admin.lives_by(watch.progress());
            self.tasks.spawn_until_stopped(Phase::Intake, format!("watch {}", K::plural(&())), watch.run());
        }
        Ok(caches)
    }

    /// Watches the objects of a kind that carry the node label.
    fn watch_owned<K: Watched>(
        &mut self,
        queue: &NodeQueue,
        prune: fn(&mut K),
    ) -> Result<ObjectStore<K>, SecretsOfAll> {
        let own_writes = self.own_writes();
        let caches = self.watch(&with_node_label(), prune, || on_owned::<K>(queue, &own_writes))?;
        Ok(ObjectStore::new(caches, own_writes))
    }

    fn own_writes(&self) -> Arc<OwnWrites> {
        Arc::new(OwnWrites::new(CONTROLLER, self.metrics))
    }

    /// Watches Certificates as soon as their CRD is installed.
    fn watch_certificates(&mut self, queue: &NodeQueue) -> Result<CertificateStore, SecretsOfAll> {
        let (sender, is_installed) = watch::channel(None);
        let sender = Arc::new(sender);
        let own_writes = self.own_writes();
        let mut caches = Vec::new();
        for api in apis::<Guarded<Certificate>>(self.client, &self.settings.watch_namespaces) {
            let handler = on_owned::<Certificate>(queue, &own_writes);
            let watch = Watch::of(api, with_node_label(), self.metrics)?.tell(handler);
            caches.push(watch.cache());
            self.admin.lives_by(watch.progress());
            let (client, sender) = (self.client.clone(), sender.clone());
            self.tasks.spawn_until_stopped(Phase::Intake, "watch certificates", async move {
                wait_for_certificate_crd(&client, &sender).await;
                watch.run().await;
            });
        }
        Ok(CertificateStore { store: ObjectStore::new(caches, own_writes), is_installed })
    }

    /// Watches the metadata of Secrets.
    fn watch_secrets(&mut self, queue: &NodeQueue, references: &Arc<ReferenceIndex>) -> SecretReader {
        let mut watches = Vec::new();
        for api in apis::<SecretMeta>(self.client, &self.settings.watch_namespaces) {
            watches.push(
                Watch::of_metadata(api, watcher::Config::default(), self.metrics).keeping(prune_secret),
            );
        }
        let caches = watches.iter().map(Watch::cache).collect();
        let secrets = SecretReader::new(self.client.clone(), caches);
        for watch in watches {
            let reader = secrets.clone();
            let watch =
                watch.tell(move |change| reader.handle_change(change)).tell(on_secret(queue, references));
            self.admin.lives_by(watch.progress());
            self.tasks.spawn_until_stopped(Phase::Intake, "watch secrets", watch.run());
        }
        secrets
    }

    /// Registers the readiness check, and the state shown at `/debug/state.json`.
    fn register_admin(&self, queue: &NodeQueue, controller: &Arc<Controller>) {
        let synced = controller.clone();
        self.admin.ready_when("caches", move || {
            if synced.stores.is_synced() { Ok(()) } else { Err("the initial lists are not complete".into()) }
        });
        let (queue, controller) = (queue.clone(), controller.clone());
        self.admin.shows("seinode", move || {
            let state = queue.state();
            let failing: BTreeMap<String, u32> =
                state.failing.into_iter().map(|(key, count)| (key.to_string(), count)).collect();
            let questions = controller.sidecars.call_count();
            json!({ "waiting": state.waiting, "running": state.running, "failing": failing, "questions": questions })
        });
    }

    /// Spawns the workers. They run while this process leads, or always when leader election is off.
    fn spawn_workers(&mut self, controller: Arc<Controller>, workers: controller::Controller<Key>) {
        let stop = self.tasks.stop(Phase::Work);
        let (client, metrics) = (self.client.clone(), self.metrics.clone());
        let work = move |claim: Claim, stop: CancellationToken| {
            let writer = Writer::new(client.clone(), manager::NODE, claim, &metrics);
            let controller = controller.clone();
            let workers = workers.clone();
            async move {
                controller.stores.wait_synced().await;
                controller.secrets.wait_synced().await;
                workers.run(stop, move |key| reconcile(controller.clone(), writer.clone(), key)).await;
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
        let observer = leadership.clone();
        self.admin.shows("leading", move || json!(matches!(*observer.borrow(), Leadership::Leading(_))));
        self.tasks.spawn(Phase::Work, "nodes", while_leading(leadership, stop, work));
    }
}

/// A kind that is watched from the start.
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

impl Watched for SeiNode {}
impl Watched for ObservedStatefulSet {}
impl Watched for ObservedPod {}
impl Watched for Service {}
impl Watched for ConfigMap {}
impl Watched for NetworkPolicy {}
impl Watched for PersistentVolumeClaim {}
impl Watched for Job {}

/// Returns one API for all namespaces, or one for each watched namespace.
fn apis<K>(client: &Client, namespaces: &[String]) -> Vec<Api<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    if namespaces.is_empty() {
        return vec![Api::all(client.clone())];
    }
    namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect()
}

/// Waits until the Certificate CRD is installed. A watch of a missing kind would fail forever and count as dead.
async fn wait_for_certificate_crd(client: &Client, is_installed: &watch::Sender<Option<bool>>) {
    loop {
        let resources = client.list_api_group_resources("cert-manager.io/v1").await;
        let installed = match &resources {
            Ok(list) => Some(list.resources.iter().any(|resource| resource.kind == "Certificate")),
            Err(kube::Error::Api(status)) if status.code == 404 => Some(false),
            Err(_) => None,
        };
        if installed.is_some() {
            is_installed.send_replace(installed);
        }
        if installed == Some(true) {
            return;
        }
        tokio::time::sleep(if installed.is_none() { CRD_POLL_RETRY } else { CRD_POLL_INTERVAL }).await;
    }
}
