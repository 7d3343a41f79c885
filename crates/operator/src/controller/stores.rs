//! The stores of all watched kinds, and what they hold about one node.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::SeiNode;
use api::cert_manager::Certificate;
use api::names::{label, object, role};
use api::sei_node::{LabelPeers, PlanKind, SeiNodeStatus};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{Client, ResourceExt};
use plan::node::{Candidates, ExclusiveObject, Observed, ObservedPod, ObservedStatefulSet};
use runtime::Key;
use runtime::watch::SyncGroup;
use tokio::sync::watch;

use super::object_store::ObjectStore;
use super::reference_index::ReferenceIndex;

/// Kubernetes truncates a long Job name in the names of its pods. At least this many bytes of it are kept.
const JOB_NAME_PREFIX: usize = 50;

/// The stores of all watched kinds.
pub(super) struct ObjectStores {
    pub(super) nodes: ObjectStore<SeiNode>,
    pub(super) stateful_sets: ObjectStore<ObservedStatefulSet>,
    pub(super) pods: ObjectStore<ObservedPod>,
    pub(super) services: ObjectStore<Service>,
    pub(super) config_maps: ObjectStore<ConfigMap>,
    pub(super) network_policies: ObjectStore<NetworkPolicy>,
    pub(super) disruption_budgets: ObjectStore<PodDisruptionBudget>,
    pub(super) claims: ObjectStore<PersistentVolumeClaim>,
    pub(super) jobs: ObjectStore<Job>,
    pub(super) certificates: CertificateStore,
    pub(super) references: Arc<ReferenceIndex>,
}

/// Certificates of cert-manager, whose CRD may not be installed.
pub(super) struct CertificateStore {
    pub(super) store: ObjectStore<Certificate>,
    /// Whether the CRD is installed; `None` until that is known.
    pub(super) is_installed: watch::Receiver<Option<bool>>,
}

impl CertificateStore {
    fn is_synced(&self) -> bool {
        match *self.is_installed.borrow() {
            None => false,
            Some(false) => true,
            Some(true) => self.sync_group().is_synced(),
        }
    }

    async fn wait_synced(&self) {
        // The sender is dropped after it sent `Some(true)`, or with the watch, which the process does not outlive.
        let mut is_installed = self.is_installed.clone();
        let installed = is_installed.wait_for(Option::is_some).await.is_ok_and(|known| *known == Some(true));
        if installed {
            self.sync_group().wait().await;
        }
    }

    fn sync_group(&self) -> SyncGroup {
        let mut group = SyncGroup::default();
        self.store.add_to(&mut group);
        group
    }
}

impl ObjectStores {
    /// True once the initial list of every kind is complete.
    pub(super) fn is_synced(&self) -> bool {
        self.sync_group().is_synced() && self.certificates.is_synced()
    }

    /// Waits until the initial list of every kind is complete.
    pub(super) async fn wait_synced(&self) {
        self.sync_group().wait().await;
        self.certificates.wait_synced().await;
    }

    /// Returns the sync state of every kind but Certificates, whose CRD may not be installed.
    fn sync_group(&self) -> SyncGroup {
        let mut group = SyncGroup::default();
        self.nodes.add_to(&mut group);
        self.stateful_sets.add_to(&mut group);
        self.pods.add_to(&mut group);
        self.services.add_to(&mut group);
        self.config_maps.add_to(&mut group);
        self.network_policies.add_to(&mut group);
        self.disruption_budgets.add_to(&mut group);
        self.claims.add_to(&mut group);
        self.jobs.add_to(&mut group);
        group
    }

    /// Returns the watched objects that belong to a node.
    pub(super) async fn observe(&self, client: &Client, node: &SeiNode) -> kube::Result<Observed> {
        let keys = ObjectKeys::for_node(node);
        Ok(Observed {
            stateful_set: self.stateful_sets.get(client, &keys.node).await?,
            pods: self.pods_of(client, node, &keys).await?,
            service: self.services.get(client, &keys.node).await?,
            proxy_config: self.config_maps.get(client, &keys.proxy_config).await?,
            network_policy: self.network_policies.get(client, &keys.network_policy).await?,
            disruption_budget: self.disruption_budgets.get(client, &keys.disruption_budget).await?,
            claim: self.claims.get(client, &keys.claim).await?,
            certificate: self.certificates.store.get(client, &keys.certificate).await?,
            job: self.jobs.get(client, &keys.job).await?,
            label_peers: self.label_peers(node, &keys.node),
            ..Observed::default()
        })
    }

    /// Lets the caches hold a converged node and its objects compressed.
    pub(super) fn compress(&self, node: &SeiNode) {
        let keys = ObjectKeys::for_node(node);
        self.nodes.compress(&keys.node);
        self.stateful_sets.compress(&keys.node);
        self.pods.compress(&keys.pod);
        self.services.compress(&keys.node);
        self.config_maps.compress(&keys.proxy_config);
        self.network_policies.compress(&keys.network_policy);
        self.disruption_budgets.compress(&keys.disruption_budget);
        self.claims.compress(&keys.claim);
        self.certificates.store.compress(&keys.certificate);
        self.jobs.compress(&keys.job);
    }

    /// Returns the pod of the StatefulSet and, during a bootstrap plan, those of the Job, whose names are random.
    async fn pods_of(
        &self,
        client: &Client,
        node: &SeiNode,
        keys: &ObjectKeys,
    ) -> kube::Result<Vec<Arc<ObservedPod>>> {
        let mut pods: Vec<Arc<ObservedPod>> = self.pods.get(client, &keys.pod).await?.into_iter().collect();
        if has_bootstrap_plan(node.status.as_ref()) {
            let is_bootstrap_pod = |pod: &Arc<ObservedPod>| {
                let labels = pod.labels();
                labels.get(label::NODE) == Some(&keys.node.name)
                    && labels.get(label::COMPONENT).map(String::as_str) == Some(role::BOOTSTRAP_COMPONENT)
            };
            let prefix = keys.job.name.get(..JOB_NAME_PREFIX).unwrap_or(&keys.job.name);
            let has_prefix = |pod: &Key| pod.namespace == keys.job.namespace && pod.name.starts_with(prefix);
            pods.extend(self.pods.list(has_prefix).into_iter().filter(is_bootstrap_pod));
        }
        Ok(pods)
    }

    /// Returns the host names of the nodes that each label source in `spec.peers` selects, by the index of the source.
    fn label_peers(&self, node: &SeiNode, key: &Key) -> BTreeMap<usize, Vec<String>> {
        let sources = node.spec.peers.iter().enumerate();
        let label_sources: Vec<_> =
            sources.filter_map(|(index, source)| Some((index, source.label.as_ref()?))).collect();
        if label_sources.is_empty() {
            return BTreeMap::new();
        }
        let hosts_of = |source: &LabelPeers| {
            let namespace = source.namespace.as_deref().unwrap_or(&key.namespace);
            let selected = self.references.nodes_with_labels(namespace, &source.selector).into_iter();
            let peers = selected.filter(|peer| peer != key);
            let mut hosts: Vec<String> =
                peers.map(|peer| object::pod_host(&peer.name, &peer.namespace)).collect();
            hosts.sort();
            hosts
        };
        label_sources.into_iter().map(|(index, source)| (index, hosts_of(source))).collect()
    }

    /// Returns what is known about the users of an object in the namespace of a node.
    pub(super) async fn candidates(
        &self,
        client: &Client,
        node: &Key,
        object: &ExclusiveObject,
    ) -> kube::Result<Candidates> {
        let named = Key { namespace: node.namespace.clone(), name: object.name().to_owned() };
        let mut users = match object {
            ExclusiveObject::SigningKey(_) => self.references.nodes_using_secret(&named),
            ExclusiveObject::Claim(name) => {
                let mut users = self.references.nodes_importing_claim(&named);
                let owner = name.strip_prefix(&object::data_claim("")).map(str::to_owned);
                users.extend(owner.map(|name| Key { namespace: node.namespace.clone(), name }));
                users
            }
        };
        users.push(node.clone());
        let mut candidates = Candidates::default();
        // Not only from the caches: they may lack what this process has just written.
        for user in &users {
            candidates.nodes.extend(self.nodes.get(client, user).await?);
            candidates.stateful_sets.extend(self.stateful_sets.get(client, user).await?);
        }
        // The objects of deleted nodes have to be searched for.
        let is_other = |key: &Key| key.namespace == node.namespace && !users.contains(key);
        candidates.stateful_sets.extend(self.stateful_sets.list(is_other));
        candidates.pods = self.pods.list(|key| key.namespace == node.namespace);
        Ok(candidates)
    }

    /// Drops what is kept for a deleted node.
    pub(super) fn forget(&self, key: &Key) {
        self.nodes.forget(key);
        self.stateful_sets.forget(key);
        self.services.forget(key);
        self.pods.forget(&Key { namespace: key.namespace.clone(), name: object::pod(&key.name) });
    }
}

/// The keys of the objects of a node.
struct ObjectKeys {
    /// The node, its StatefulSet and its Service.
    node: Key,
    pod: Key,
    proxy_config: Key,
    network_policy: Key,
    disruption_budget: Key,
    claim: Key,
    certificate: Key,
    job: Key,
}

impl ObjectKeys {
    fn for_node(node: &SeiNode) -> Self {
        let key = Key::from_object(node);
        let named = |name: String| Key { namespace: key.namespace.clone(), name };
        let imported = node.spec.data_volume.as_ref().and_then(|volume| volume.import.as_ref());
        let claim = imported.map_or_else(|| object::data_claim(&key.name), |import| import.pvc_name.clone());
        Self {
            pod: named(object::pod(&key.name)),
            proxy_config: named(object::proxy_config(&key.name)),
            network_policy: named(object::network_policy(&key.name)),
            disruption_budget: named(object::disruption_budget(&key.name)),
            claim: named(claim),
            certificate: named(object::sidecar_tls(&key.name)),
            job: named(object::bootstrap_job(&key.name)),
            node: key,
        }
    }
}

fn has_bootstrap_plan(status: Option<&SeiNodeStatus>) -> bool {
    let plan = status.and_then(|status| status.plan.as_ref());
    plan.is_some_and(|plan| plan.kind == Some(PlanKind::Bootstrap))
}
