//! Everything of nodes that is watched, and what it says about one of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::SeiNode;
use api::cert_manager::Certificate;
use api::names::{label, object, role};
use api::sei_node::{PlanKind, SeiNodeStatus};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{Client, ResourceExt};
use plan::node::{SeenPod, SeenSet, World};
use runtime::Key;
use tokio::sync::watch;

use super::seen::Seen;
use super::ties::Ties;

/// So much of a Job's name is at least the beginning of the names of its pods.
const SHORTEST_CUT: usize = 50;

/// Everything of nodes that is watched.
pub(super) struct Objects {
    pub(super) nodes: Seen<SeiNode>,
    pub(super) stateful_sets: Seen<SeenSet>,
    pub(super) pods: Seen<SeenPod>,
    pub(super) services: Seen<Service>,
    pub(super) config_maps: Seen<ConfigMap>,
    pub(super) network_policies: Seen<NetworkPolicy>,
    pub(super) claims: Seen<PersistentVolumeClaim>,
    pub(super) jobs: Seen<Job>,
    pub(super) certificates: Certificates,
    /// What nodes have to do with each other.
    pub(super) ties: Arc<Ties>,
}

/// Certificates, if there is such a kind.
pub(super) struct Certificates {
    pub(super) seen: Seen<Certificate>,
    /// Whether there is such a kind, once that is known.
    pub(super) there: watch::Receiver<Option<bool>>,
}

impl Certificates {
    fn is_synced(&self) -> bool {
        match *self.there.borrow() {
            None => false,
            Some(false) => true,
            Some(true) => self.seen.is_synced(),
        }
    }

    async fn synced(&self) {
        // Its sender lives as long as the watch, and the process does not outlive that.
        let known =
            self.there.clone().wait_for(Option::is_some).await.is_ok_and(|there| *there == Some(true));
        if known {
            self.seen.synced().await;
        }
    }
}

impl Objects {
    /// True once the first list of every kind is complete.
    pub(super) fn is_synced(&self) -> bool {
        self.nodes.is_synced()
            && self.stateful_sets.is_synced()
            && self.pods.is_synced()
            && self.services.is_synced()
            && self.config_maps.is_synced()
            && self.network_policies.is_synced()
            && self.claims.is_synced()
            && self.jobs.is_synced()
            && self.certificates.is_synced()
    }

    /// Waits for that.
    pub(super) async fn synced(&self) {
        self.nodes.synced().await;
        self.stateful_sets.synced().await;
        self.pods.synced().await;
        self.services.synced().await;
        self.config_maps.synced().await;
        self.network_policies.synced().await;
        self.claims.synced().await;
        self.jobs.synced().await;
        self.certificates.synced().await;
    }

    /// What was seen of a node's surroundings, as far as it is watched.
    pub(super) async fn world_of(&self, client: &Client, node: &SeiNode) -> kube::Result<World> {
        let names = Names::of(node);
        Ok(World {
            stateful_set: self.stateful_sets.get(client, &names.node).await?,
            pods: self.pods_of(client, node, &names).await?,
            service: self.services.get(client, &names.node).await?,
            proxy_config: self.config_maps.get(client, &names.proxy_config).await?,
            network_policy: self.network_policies.get(client, &names.network_policy).await?,
            claim: self.claims.get(client, &names.claim).await?,
            certificate: self.certificates.seen.get(client, &names.certificate).await?,
            job: self.jobs.get(client, &names.job).await?,
            label_peers: self.label_peers(node, &names.node),
            ..World::default()
        })
    }

    /// Nobody works with a node and its surroundings for now.
    pub(super) fn rest(&self, node: &SeiNode) {
        let names = Names::of(node);
        self.nodes.rest(&names.node);
        self.stateful_sets.rest(&names.node);
        self.pods.rest(&names.pod);
        self.services.rest(&names.node);
        self.config_maps.rest(&names.proxy_config);
        self.network_policies.rest(&names.network_policy);
        self.claims.rest(&names.claim);
        self.certificates.seen.rest(&names.certificate);
        self.jobs.rest(&names.job);
    }

    /// The node's own pod, and while it is bootstrapped those of its Job, whose names nobody knows.
    async fn pods_of(
        &self,
        client: &Client,
        node: &SeiNode,
        names: &Names,
    ) -> kube::Result<Vec<Arc<SeenPod>>> {
        let mut pods: Vec<Arc<SeenPod>> = self.pods.get(client, &names.pod).await?.into_iter().collect();
        if is_bootstrapped(node.status.as_ref()) {
            let of_job = |pod: &Arc<SeenPod>| {
                let labels = pod.labels();
                labels.get(label::NODE) == Some(&names.node.name)
                    && labels.get(label::COMPONENT).map(String::as_str) == Some(role::BOOTSTRAP_COMPONENT)
            };
            // Of a long name, Kubernetes takes the beginning.
            let beginning = names.job.name.get(..SHORTEST_CUT).unwrap_or(&names.job.name);
            let named_after_it =
                |pod: &Key| pod.namespace == names.job.namespace && pod.name.starts_with(beginning);
            pods.extend(self.pods.all_of(named_after_it).into_iter().filter(of_job));
        }
        Ok(pods)
    }

    /// Host names of the nodes that each label source of a node's peers selects.
    fn label_peers(&self, node: &SeiNode, key: &Key) -> BTreeMap<usize, Vec<String>> {
        let sources = node.spec.peers.iter().enumerate();
        let labelled: Vec<_> =
            sources.filter_map(|(index, source)| Some((index, source.label.as_ref()?))).collect();
        if labelled.is_empty() {
            return BTreeMap::new();
        }
        let peers_of = |source: &api::sei_node::LabelPeers| {
            let namespace = source.namespace.as_deref().unwrap_or(&key.namespace);
            let selected = self.ties.labelled(namespace, &source.selector).into_iter();
            let peers = selected.filter(|peer| peer != key);
            let mut hosts: Vec<String> =
                peers.map(|peer| object::pod_host(&peer.name, &peer.namespace)).collect();
            hosts.sort();
            hosts
        };
        labelled.into_iter().map(|(index, source)| (index, peers_of(source))).collect()
    }

    /// Nothing is remembered of a node that is gone.
    pub(super) fn forget(&self, key: &Key) {
        self.nodes.forget(key);
        self.stateful_sets.forget(key);
        self.services.forget(key);
        self.pods.forget(&Key { namespace: key.namespace.clone(), name: object::pod(&key.name) });
    }
}

/// What the objects of a node are called.
struct Names {
    /// The node, its StatefulSet and its Service.
    node: Key,
    pod: Key,
    proxy_config: Key,
    network_policy: Key,
    claim: Key,
    certificate: Key,
    job: Key,
}

impl Names {
    fn of(node: &SeiNode) -> Self {
        let key = Key::of(node);
        let named = |name: String| Key { namespace: key.namespace.clone(), name };
        let imported = node.spec.data_volume.as_ref().and_then(|volume| volume.import.as_ref());
        let claim = imported.map_or_else(|| object::data_claim(&key.name), |import| import.pvc_name.clone());
        Self {
            pod: named(object::pod(&key.name)),
            proxy_config: named(object::proxy_config(&key.name)),
            network_policy: named(object::network_policy(&key.name)),
            claim: named(claim),
            certificate: named(object::sidecar_tls(&key.name)),
            job: named(object::bootstrap_job(&key.name)),
            node: key,
        }
    }
}

fn is_bootstrapped(status: Option<&SeiNodeStatus>) -> bool {
    let plan = status.and_then(|status| status.plan.as_ref());
    plan.is_some_and(|plan| plan.kind == Some(PlanKind::Bootstrap))
}
