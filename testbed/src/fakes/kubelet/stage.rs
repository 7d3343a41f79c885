//! What all pods of one player share, and how news reaches them.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::{Client, ResourceExt};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::cast::Cast;
use super::claims;
use super::direction::{Claims, Direction};
use super::is_status;
use super::log::Log;
use super::objects::{self, Key, Kind, Objects};
use super::part::Part;
use super::status::Place;
use crate::fakes::sidecars::{NodeName, Shared};

/// How many requests to the API server are on their way at once: a thousand pods must not come as a thousand.
const TURNS: usize = 32;

/// How often binding a claim is tried, and the time between: an API server that restarts is back by then.
const BINDING_ATTEMPTS: usize = 100;
const RETRY: Duration = Duration::from_millis(200);

/// Addresses of pods: of a range reserved for tests, and never dialled.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const ADDRESSES: u32 = (1 << 17) - 3;

/// The address of the machine that all pods are on.
pub(super) const MACHINE_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The world of one player.
pub(super) struct Stage {
    pub(super) client: Client,
    pub(super) sidecars: Arc<Shared>,
    pub(super) machine: String,
    pub(super) log: Log,
    direction: Mutex<Direction>,
    objects: Mutex<Objects>,
    cast: Mutex<Cast>,
    turns: Semaphore,
    addresses: AtomicU32,
    /// Where claims are bound, also when a test that is no task of the runtime asks for it.
    runtime: Handle,
}

impl Stage {
    pub(super) fn new(client: Client, sidecars: Arc<Shared>, machine: String, log: Log) -> Arc<Self> {
        Arc::new(Self {
            client,
            sidecars,
            machine,
            log,
            direction: Mutex::default(),
            objects: Mutex::default(),
            cast: Mutex::default(),
            turns: Semaphore::new(TURNS),
            addresses: AtomicU32::new(0),
            runtime: Handle::current(),
        })
    }

    /// Waits for one's turn to ask the API server something.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // Never closed.
        self.turns.acquire().await.ok()
    }

    pub(super) fn directed<T>(&self, read: impl FnOnce(&Direction) -> T) -> T {
        read(&self.direction.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the direction, which may concern everybody.
    pub(super) fn direct(self: &Arc<Self>, change: impl FnOnce(&mut Direction)) {
        change(&mut self.direction.lock().unwrap_or_else(PoisonError::into_inner));
        self.cast(|cast| cast.wake_all());
        let claims: Vec<_> = self.objects(|objects| objects.claims.values().cloned().collect());
        claims.into_iter().for_each(|claim| self.bind(claim));
    }

    pub(super) fn objects<T>(&self, access: impl FnOnce(&mut Objects) -> T) -> T {
        access(&mut self.objects.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn cast<T>(&self, access: impl FnOnce(&mut Cast) -> T) -> T {
        access(&mut self.cast.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends every play.
    pub(super) fn close(&self) {
        self.cast(Cast::clear);
    }

    /// The sidecar of a node has become ready, or is no longer.
    pub(super) fn readiness_changed(&self, node: &NodeName) {
        self.cast(|cast| cast.wake_of(node));
    }

    fn changed(&self, kind: Kind, key: Key) {
        self.cast(|cast| cast.wake_needing(&(kind, key)));
    }

    fn next_address(&self) -> String {
        let number = self.addresses.fetch_add(1, Ordering::Relaxed) % ADDRESSES;
        Ipv4Addr::from(u32::from(FIRST_ADDRESS) + number).to_string()
    }

    /// Gives a claim its volume, if that is directed and it has none.
    fn bind(self: &Arc<Self>, claim: Arc<PersistentVolumeClaim>) {
        let how = self.directed(|direction| direction.claims);
        let going = claim.metadata.deletion_timestamp.is_some();
        if how == Claims::Pending || going || objects::is_bound(&claim) {
            return;
        }
        let stage = self.clone();
        self.runtime.spawn(async move {
            for _ in 0..BINDING_ATTEMPTS {
                let bound = {
                    let _turn = stage.turn().await;
                    claims::bind(&stage.client, &claim, how).await
                };
                match bound {
                    Err(error) if !is_status(&error, 404) => {
                        stage.log.say(claim.name_any(), format!("binding the claim: {error}"));
                        tokio::time::sleep(RETRY).await;
                    }
                    _ => return,
                }
            }
        });
    }
}

/// A kind of objects that is followed.
pub(super) trait Followed: Sized {
    /// One was made or changed.
    fn seen(self, key: Key, stage: &Arc<Stage>);
    /// One is gone.
    fn gone(key: &Key, stage: &Arc<Stage>);
}

impl Followed for Pod {
    fn seen(self, key: Key, stage: &Arc<Stage>) {
        let uid = self.uid();
        let known = stage.cast(|cast| cast.get(&key).filter(|part| Some(&part.uid) == uid.as_ref()).cloned());
        if let Some(part) = known {
            return part.see(self);
        }
        // Another pod of the same name: that the one before is gone was missed.
        Self::gone(&key, stage);
        let place = Place { host_ip: MACHINE_ADDRESS.to_string(), pod_ip: stage.next_address() };
        let Some(part) = Part::of(self, place).map(Arc::new) else { return };
        let task = tokio::spawn(part.clone().play(stage.clone())).abort_handle();
        stage.cast(|cast| cast.insert(key, part.clone(), task));
        // What changed before it was among the others was told to them only.
        part.wake();
    }

    fn gone(key: &Key, stage: &Arc<Stage>) {
        if let Some(part) = stage.cast(|cast| cast.remove(key)) {
            stage.sidecars.pod_ended(&part.node, &part.uid);
        }
    }
}

impl Followed for Secret {
    fn seen(self, key: Key, stage: &Arc<Stage>) {
        stage.objects(|objects| objects.secrets.insert(key.clone(), Arc::new(self)));
        stage.changed(Kind::Secret, key);
    }

    fn gone(key: &Key, stage: &Arc<Stage>) {
        stage.objects(|objects| objects.secrets.remove(key));
    }
}

impl Followed for ConfigMap {
    fn seen(self, key: Key, stage: &Arc<Stage>) {
        stage.objects(|objects| objects.config_maps.insert(key.clone(), Arc::new(self)));
        stage.changed(Kind::ConfigMap, key);
    }

    fn gone(key: &Key, stage: &Arc<Stage>) {
        stage.objects(|objects| objects.config_maps.remove(key));
    }
}

impl Followed for PersistentVolumeClaim {
    fn seen(self, key: Key, stage: &Arc<Stage>) {
        let claim = Arc::new(self);
        stage.objects(|objects| objects.claims.insert(key.clone(), claim.clone()));
        stage.changed(Kind::Claim, key);
        stage.bind(claim);
    }

    fn gone(key: &Key, stage: &Arc<Stage>) {
        stage.objects(|objects| objects.claims.remove(key));
    }
}
