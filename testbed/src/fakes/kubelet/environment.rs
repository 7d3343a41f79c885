//! State shared by all fake pods, and delivery of watch events to them.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::{Client, ResourceExt};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::claims;
use super::is_status;
use super::log::Log;
use super::objects::{self, Key, Kind, Objects};
use super::pod::FakePod;
use super::pods::PodRegistry;
use super::script::{ClaimPolicy, Script};
use super::status::PodAddresses;
use crate::fakes::sidecars::{NodeName, Shared};
use crate::sync::lock;

/// Maximum concurrent requests to the API server, however many pods there are.
const MAX_CONCURRENT_REQUESTS: usize = 32;

/// Attempts at binding a claim and the delay between them: long enough to outlast an API server restart.
const BINDING_ATTEMPTS: usize = 100;
const RETRY: Duration = Duration::from_millis(200);

/// Pod IPs: from a range reserved for benchmarks, never dialed.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const ADDRESSES: u32 = (1 << 17) - 3;

/// Address of the node that all pods run on.
pub(super) const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// State shared by all fake pods.
pub(super) struct Environment {
    pub(super) client: Client,
    pub(super) sidecars: Arc<Shared>,
    pub(super) kube_node: String,
    pub(super) log: Log,
    script: Mutex<Script>,
    objects: Mutex<Objects>,
    pods: Mutex<PodRegistry>,
    request_permits: Semaphore,
    addresses: AtomicU32,
    /// Runs claim binding, also when called from a test thread outside the runtime.
    runtime: Handle,
}

impl Environment {
    pub(super) fn new(client: Client, sidecars: Arc<Shared>, kube_node: String, log: Log) -> Arc<Self> {
        Arc::new(Self {
            client,
            sidecars,
            kube_node,
            log,
            script: Mutex::default(),
            objects: Mutex::default(),
            pods: Mutex::default(),
            request_permits: Semaphore::new(MAX_CONCURRENT_REQUESTS),
            addresses: AtomicU32::new(0),
            runtime: Handle::current(),
        })
    }

    /// Waits for a free request slot.
    pub(super) async fn request_permit(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.request_permits.acquire().await.ok()
    }

    pub(super) fn script<T>(&self, read: impl FnOnce(&Script) -> T) -> T {
        read(&lock(&self.script))
    }

    /// Changes the settings, then wakes all pods and retries all claims.
    pub(super) fn update_script(self: &Arc<Self>, change: impl FnOnce(&mut Script)) {
        change(&mut lock(&self.script));
        self.pods(|pods| pods.wake_all());
        let claims: Vec<_> = self.objects(|objects| objects.claims.values().cloned().collect());
        claims.into_iter().for_each(|claim| self.bind(claim));
    }

    pub(super) fn objects<T>(&self, access: impl FnOnce(&mut Objects) -> T) -> T {
        access(&mut lock(&self.objects))
    }

    fn pods<T>(&self, access: impl FnOnce(&mut PodRegistry) -> T) -> T {
        access(&mut lock(&self.pods))
    }

    /// Aborts the tasks of all pods.
    pub(super) fn close(&self) {
        self.pods(PodRegistry::clear);
    }

    /// Handles a change of sidecar readiness.
    pub(super) fn readiness_changed(&self, node: &NodeName) {
        self.pods(|pods| pods.wake_node(node));
    }

    fn changed(&self, kind: Kind, key: Key) {
        self.pods(|pods| pods.wake_dependents(&(kind, key)));
    }

    fn next_address(&self) -> String {
        let number = self.addresses.fetch_add(1, Ordering::Relaxed) % ADDRESSES;
        Ipv4Addr::from(u32::from(FIRST_ADDRESS) + number).to_string()
    }

    /// Binds an unbound claim, unless the settings say otherwise.
    fn bind(self: &Arc<Self>, claim: Arc<PersistentVolumeClaim>) {
        let policy = self.script(|script| script.claims);
        let deleting = claim.metadata.deletion_timestamp.is_some();
        if policy == ClaimPolicy::Pending || deleting || objects::is_bound(&claim) {
            return;
        }
        let env = self.clone();
        self.runtime.spawn(async move {
            for _ in 0..BINDING_ATTEMPTS {
                let bound = {
                    let _permit = env.request_permit().await;
                    claims::bind(&env.client, &claim, policy).await
                };
                match bound {
                    Err(error) if !is_status(&error, 404) => {
                        env.log.record(claim.name_any(), format!("binding the claim: {error}"));
                        tokio::time::sleep(RETRY).await;
                    }
                    _ => return,
                }
            }
        });
    }
}

/// A kind of object that is watched.
pub(super) trait Watched: Sized {
    /// The object was created or changed.
    fn applied(self, key: Key, env: &Arc<Environment>);
    /// The object was deleted.
    fn deleted(key: &Key, env: &Arc<Environment>);
}

impl Watched for Pod {
    fn applied(self, key: Key, env: &Arc<Environment>) {
        let uid = self.uid();
        let known = env.pods(|pods| pods.get(&key).filter(|pod| Some(&pod.uid) == uid.as_ref()).cloned());
        if let Some(pod) = known {
            return pod.observe(self);
        }
        // Another pod of the same name: the deletion of the previous one was missed.
        Self::deleted(&key, env);
        let addresses = PodAddresses { host_ip: NODE_ADDRESS.to_string(), pod_ip: env.next_address() };
        let Some(pod) = FakePod::new(self, addresses).map(Arc::new) else { return };
        let task = tokio::spawn(pod.clone().run(env.clone())).abort_handle();
        env.pods(|pods| pods.insert(key, pod.clone(), task));
        // Changes that arrived before the insertion woke only the other pods.
        pod.wake();
    }

    fn deleted(key: &Key, env: &Arc<Environment>) {
        if let Some(pod) = env.pods(|pods| pods.remove(key)) {
            env.sidecars.pod_ended(&pod.node, &pod.uid);
        }
    }
}

impl Watched for Secret {
    fn applied(self, key: Key, env: &Arc<Environment>) {
        env.objects(|objects| objects.secrets.insert(key.clone(), Arc::new(self)));
        env.changed(Kind::Secret, key);
    }

    fn deleted(key: &Key, env: &Arc<Environment>) {
        env.objects(|objects| objects.secrets.remove(key));
    }
}

impl Watched for ConfigMap {
    fn applied(self, key: Key, env: &Arc<Environment>) {
        env.objects(|objects| objects.config_maps.insert(key.clone(), Arc::new(self)));
        env.changed(Kind::ConfigMap, key);
    }

    fn deleted(key: &Key, env: &Arc<Environment>) {
        env.objects(|objects| objects.config_maps.remove(key));
    }
}

impl Watched for PersistentVolumeClaim {
    fn applied(self, key: Key, env: &Arc<Environment>) {
        let claim = Arc::new(self);
        env.objects(|objects| objects.claims.insert(key.clone(), claim.clone()));
        env.changed(Kind::Claim, key);
        env.bind(claim);
    }

    fn deleted(key: &Key, env: &Arc<Environment>) {
        env.objects(|objects| objects.claims.remove(key));
    }
}
