//! Builds the node controller and starts its tasks.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::cert_manager::Certificate;
use api::names::manager;
use api::{SeiNode, SeiNodeDeployment};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use plan::node::{ObservedPod, ObservedStatefulSet};
use runtime::Key;
use runtime::controller;
use runtime::own_writes::OwnWrites;
use runtime::process::{self, Process};
use runtime::queue::{Backoff, Priority, Queue};
use runtime::sync::lock;
use runtime::watch::{Cache, Change, ClusterWideSecrets, DeserializeGuard, SyncGroup, Watch};
use runtime::write::Writer;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::watch;

use super::Controller;
use super::deletions::Deletions;
use super::fleets::{self, FleetController, FleetQueue};
use super::object_store::ObjectStore;
use super::reconcile::reconcile;
use super::reference_index::ReferenceIndex;
use super::reservations::Reservations;
use super::stores::{CertificateStore, ObjectStores};
use super::update_slots::UpdateSlots;
use super::volumes::VolumeReader;
use super::watches::{
    NodeQueue, on_certificate, on_claim, on_node, on_owned, on_pod, prune_claim, prune_node, with_node_label,
};
use crate::chain_progress::ChainHeights;
use crate::metrics::{CONTROLLER, NodeMetrics};
use crate::probe_failures::ProbeFailures;
use crate::secrets::SecretReader;
use crate::settings::Settings;
use crate::sidecar::{Client as SidecarClient, Sidecars, TokenSource};

/// The deadline of one reconcile: more than the sum of the timeouts of all its requests.
const RECONCILE_DEADLINE: Duration = Duration::from_secs(120);

/// The backoff of a node whose reconcile failed.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(60) };

/// How often the operator checks whether cert-manager has been installed.
const CRD_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// How soon that check is retried after it failed.
const CRD_POLL_RETRY: Duration = Duration::from_secs(1);

/// Builds the controller and spawns its tasks on the process.
pub(super) struct Builder<'a> {
    pub(super) settings: &'a Settings,
    tokens: TokenSource,
    pub(super) process: &'a mut Process,
}

/// Starts the node controller. `tokens` is the source of the tokens for sidecars.
pub(crate) fn start(
    settings: &Settings,
    tokens: TokenSource,
    process: &mut Process,
) -> Result<(), process::Error> {
    let queue = Queue::new(settings.max_concurrent_reconciles, BACKOFF, process.metrics.queue(CONTROLLER));
    let fleet_queue =
        Queue::new(settings.max_concurrent_reconciles, BACKOFF, process.metrics.queue(fleets::CONTROLLER));
    let mut builder = Builder { settings, tokens, process };
    let (controller, fleets) = builder.build_controllers(&queue, &fleet_queue)?;
    let (controller, fleets) = (Arc::new(controller), Arc::new(fleets));
    builder.register_admin(&queue, &controller, &fleet_queue, &fleets);
    builder.spawn_workers(queue, controller, fleet_queue, fleets);
    Ok(())
}

impl Builder<'_> {
    /// Builds the controllers, and spawns a task for each of their watches.
    fn build_controllers(
        &mut self,
        queue: &NodeQueue,
        fleet_queue: &FleetQueue,
    ) -> Result<(Controller, FleetController), ClusterWideSecrets> {
        let unfiltered = watcher::Config::default;
        let (node_writes, claim_writes, pod_writes) =
            (self.own_writes(), self.own_writes(), self.own_writes());
        let references = Arc::<ReferenceIndex>::default();
        let update_slots = Arc::new(UpdateSlots::new(self.settings.max_platform_disruptions));
        let deletions = Arc::<Deletions>::default();
        let secrets = SecretReader::new(self.process.client.clone());
        let node_caches = self.watch(&unfiltered(), prune_node, || {
            let on_node = on_node(queue, &node_writes, &references, &deletions);
            let (slots, queue) = (update_slots.clone(), queue.clone());
            let on_fleet_node = fleets::on_node(fleet_queue);
            move |change: &Change<SeiNode>| {
                on_node(change);
                on_fleet_node(change);
                for next in slots.update(change) {
                    queue.add(next, Priority::Low);
                }
            }
        })?;
        let fleet_nodes = node_caches.clone();
        let for_each_node = {
            let caches = node_caches.clone();
            move |visit: &mut dyn FnMut(&SeiNode)| caches.iter().for_each(|cache| cache.for_each(&mut *visit))
        };
        let stores = ObjectStores {
            stateful_sets: self.watch_owned::<ObservedStatefulSet>(queue, |_| {})?,
            pods: {
                let handler = || on_pod(queue, &pod_writes, &references);
                let caches = self.watch(&with_node_label(), ObservedPod::prune, handler)?;
                ObjectStore::new(caches, pod_writes)
            },
            services: self.watch_owned::<Service>(queue, |_| {})?,
            config_maps: self.watch_owned::<ConfigMap>(queue, |_| {})?,
            network_policies: self.watch_owned::<NetworkPolicy>(queue, |_| {})?,
            // Its status changes with the readiness of the pod, and is never read.
            disruption_budgets: self.watch_owned::<PodDisruptionBudget>(queue, |one| one.status = None)?,
            claims: {
                let handler = || on_claim(queue, &claim_writes, &references);
                let caches = self.watch(&unfiltered(), prune_claim, handler)?;
                ObjectStore::<PersistentVolumeClaim>::new(caches, claim_writes)
            },
            jobs: self.watch_owned::<Job>(queue, |_| {})?,
            certificates: self.watch_certificates(queue, &secrets)?,
            nodes: ObjectStore::new(node_caches, node_writes),
            references: references.clone(),
        };
        let settings = self.settings;
        let sidecars = {
            let (queue, secrets) = (queue.clone(), secrets.clone());
            let client = SidecarClient::new(
                settings.sidecar_address.clone(),
                self.tokens.clone(),
                settings.legacy_sidecar_token_file.clone(),
                move |secret| secrets.expire_after_mismatch(secret),
            );
            Sidecars::new(client, move |key| queue.add(key, Priority::High))
        };
        let heights = Arc::<ChainHeights>::default();
        let fleets = fleets::build(self, fleet_queue, fleet_nodes, heights.clone())?;
        let expiry = {
            let secrets = secrets.clone();
            move |secret: &Key| secrets.certificate_expiry(secret)
        };
        let controller = Controller {
            client: self.process.client.clone(),
            volumes: VolumeReader::new(self.process.client.clone()),
            platform: settings.platform.clone(),
            stores,
            sidecars,
            secrets,
            events: self.process.spawn_events(manager::NODE, &settings.identity),
            metrics: NodeMetrics::new(&self.process.metrics, for_each_node, heights.clone(), expiry),
            deletions,
            reservations: Reservations::default(),
            render_caches: Mutex::default(),
            update_slots,
            heights,
            probe_failures: ProbeFailures::default(),
            active_since: Mutex::default(),
        };
        Ok((controller, fleets))
    }

    /// Watches a kind: all namespaces, or each watched namespace by itself.
    pub(super) fn watch<K, H>(
        &mut self,
        config: &watcher::Config,
        prune: fn(&mut K),
        handler: impl Fn() -> H,
    ) -> Result<Vec<Cache<K>>, ClusterWideSecrets>
    where
        K: Watched,
        H: Fn(&Change<K>) + Send + Sync + 'static,
    {
        let mut caches = Vec::new();
        for api in self.apis::<DeserializeGuard<K>>() {
            let watch = Watch::new(api, config.clone(), &self.process.metrics)?;
            caches.push(self.process.spawn_watch(watch.modify(prune).on_change(handler())));
        }
        Ok(caches)
    }

    /// Watches the objects of a kind that carry the node label.
    fn watch_owned<K: Watched>(
        &mut self,
        queue: &NodeQueue,
        prune: fn(&mut K),
    ) -> Result<ObjectStore<K>, ClusterWideSecrets> {
        let own_writes = self.own_writes();
        let caches = self.watch(&with_node_label(), prune, || on_owned::<K>(queue, &own_writes))?;
        Ok(ObjectStore::new(caches, own_writes))
    }

    fn own_writes(&self) -> Arc<OwnWrites> {
        Arc::new(OwnWrites::new(CONTROLLER, &self.process.metrics))
    }

    /// Watches Certificates as soon as their CRD is installed.
    fn watch_certificates(
        &mut self,
        queue: &NodeQueue,
        secrets: &SecretReader,
    ) -> Result<CertificateStore, ClusterWideSecrets> {
        let (sender, is_installed) = watch::channel(None);
        let sender = Arc::new(sender);
        let own_writes = self.own_writes();
        let mut caches = Vec::new();
        for api in self.apis::<DeserializeGuard<Certificate>>() {
            let handler = on_certificate(queue, &own_writes, secrets);
            let watch = Watch::new(api, with_node_label(), &self.process.metrics)?.on_change(handler);
            let installed = wait_for_certificate_crd(self.process.client.clone(), sender.clone());
            caches.push(self.process.spawn_watch_after(installed, watch));
        }
        Ok(CertificateStore { store: ObjectStore::new(caches, own_writes), is_installed })
    }

    /// Returns one API for all namespaces, or one for each watched namespace.
    fn apis<K>(&self) -> Vec<Api<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let (client, namespaces) = (&self.process.client, &self.settings.watch_namespaces);
        if namespaces.is_empty() {
            return vec![Api::all(client.clone())];
        }
        namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect()
    }

    /// Registers the readiness check, and the state shown at `/debug/state.json`.
    fn register_admin(
        &self,
        queue: &NodeQueue,
        controller: &Arc<Controller>,
        fleet_queue: &FleetQueue,
        fleets: &Arc<FleetController>,
    ) {
        let (synced, fleets) = (controller.clone(), fleets.clone());
        self.process.ready_when_synced(move || synced.stores.is_synced() && fleet_group(&fleets).is_synced());
        let fleet_queue = fleet_queue.clone();
        self.process.admin.add_debug_state(fleets::CONTROLLER, move || fleet_queue.state().to_json());
        let (queue, controller) = (queue.clone(), controller.clone());
        self.process.admin.add_debug_state("seinode", move || {
            let mut state = queue.state().to_json();
            state["questions"] = json!(controller.sidecars.call_count());
            state
        });
    }

    /// Spawns the workers. They run while this process leads, or always when leader election is off.
    fn spawn_workers(
        &mut self,
        queue: NodeQueue,
        controller: Arc<Controller>,
        fleet_queue: FleetQueue,
        fleets: Arc<FleetController>,
    ) {
        let (client, metrics) = (self.process.client.clone(), self.process.metrics.clone());
        let workers = controller::Controller::new(CONTROLLER, queue, RECONCILE_DEADLINE, &metrics);
        let fleet_workers =
            controller::Controller::new(fleets::CONTROLLER, fleet_queue, RECONCILE_DEADLINE, &metrics);
        self.process.spawn_leader_elected("nodes", self.settings.lease.clone(), move |claim, stop| {
            let writer = Writer::new(client.clone(), manager::NODE, claim.clone(), &metrics);
            let fleet_writer = Writer::new(client.clone(), manager::FLEET, claim, &metrics);
            let (controller, workers) = (controller.clone(), workers.clone());
            let (fleets, fleet_workers) = (fleets.clone(), fleet_workers.clone());
            async move {
                controller.stores.wait_synced().await;
                fleet_group(&fleets).wait().await;
                let now = Time(Timestamp::now());
                *lock(&controller.active_since) = Some(now.clone());
                *lock(&fleets.active_since) = Some(now);
                let _recording = controller.deletions.record_while_leading();
                let nodes =
                    workers.run(stop.clone(), move |key| reconcile(controller.clone(), writer.clone(), key));
                let fleets = fleet_workers
                    .run(stop, move |key| fleets::reconcile(fleets.clone(), fleet_writer.clone(), key));
                tokio::join!(nodes, fleets);
            }
        });
    }
}

/// Returns the sync state of the kinds that only the fleet controller watches.
fn fleet_group(fleets: &FleetController) -> SyncGroup {
    let mut group = SyncGroup::default();
    fleets.add_to(&mut group);
    group
}

/// A kind that is watched from the start.
pub(super) trait Watched:
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
impl Watched for PodDisruptionBudget {}
impl Watched for PersistentVolumeClaim {}
impl Watched for Job {}
impl Watched for SeiNodeDeployment {}
impl Watched for ControllerRevision {}

/// Waits until the Certificate CRD is installed. A watch of a missing kind would fail forever and count as dead.
async fn wait_for_certificate_crd(client: Client, is_installed: Arc<watch::Sender<Option<bool>>>) {
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
