//! Supervised watches. Each has its own task, backoff and cache, so that a failing watch does not affect the others.

mod arena;
mod cache;
mod cause;
mod guard;
mod store;

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use self::cache::Listing;
pub use self::cache::{Cache, Change, SyncGroup};
pub use self::guard::DeserializeGuard;
use crate::key::Key;
use crate::liveness::Liveness;
use crate::metrics::{CauseLabels, KindLabels, Metrics};
use crate::queue::Backoff;

/// After this time the API server closes a watch. Short, because a lost connection can go unnoticed for as long.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(120);

/// Backoff of a failing watch. The maximum is short, so that the first edit after an outage is noticed soon; a process has only
/// some ten watches.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(3) };

/// A watch that fails for longer than this makes the liveness probe fail.
const FAILURE_TOLERANCE: Duration = Duration::from_secs(300);

/// Written by `kubectl apply`: a second copy of the object, which is never read here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

type Events<K> = BoxStream<'static, watcher::Result<Event<DeserializeGuard<K>>>>;

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// A watch of all Secrets was requested. It would keep every key and token of the cluster in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refusing to cache Secrets cluster-wide: read them by name, or watch the Secrets of one namespace")]
pub struct ClusterWideSecrets;

/// A watch that has not started yet.
pub struct Watch<K: Resource> {
    kind: String,
    events: Box<dyn Fn() -> Events<K> + Send + Sync>,
    cache: Cache<K>,
    listeners: Vec<Listener<K>>,
    modify: fn(&mut K),
    metrics: Metrics,
    progress: Liveness,
}

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Creates a watch of full objects. An object that fails to deserialize is skipped and does not fail the watch.
    pub fn new(
        api: Api<DeserializeGuard<K>>,
        config: watcher::Config,
        metrics: &Metrics,
    ) -> Result<Self, ClusterWideSecrets> {
        if K::kind(&()) == "Secret" && api.namespace().is_none() {
            return Err(ClusterWideSecrets);
        }
        let config = with_timeout(config);
        Ok(Self::from_events(metrics, move || watcher::watcher(api.clone(), config.clone()).boxed()))
    }

    fn from_events(metrics: &Metrics, events: impl Fn() -> Events<K> + Send + Sync + 'static) -> Self {
        let kind = K::plural(&()).into_owned();
        Self {
            progress: Liveness::new(format!("watch {kind}"), FAILURE_TOLERANCE),
            kind,
            events: Box::new(events),
            cache: Cache::new(),
            listeners: Vec::new(),
            modify: |_| {},
            metrics: metrics.clone(),
        }
    }

    /// Returns the plural name of the watched kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the cache that the watch fills.
    #[must_use]
    pub fn cache(&self) -> Cache<K> {
        self.cache.clone()
    }

    /// Returns its liveness, for the admin server.
    #[must_use]
    pub fn progress(&self) -> Liveness {
        self.progress.clone()
    }

    /// Modifies every object before it is cached, to drop fields that are never read.
    #[must_use]
    pub fn modify(mut self, modify: fn(&mut K)) -> Self {
        self.modify = modify;
        self
    }

    /// Calls `listener` for every change, after the cache was updated. It must not block.
    #[must_use]
    pub fn on_change(mut self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) -> Self {
        self.listeners.push(Box::new(listener));
        self
    }

    /// Watches until the future is dropped.
    pub async fn run(self) {
        loop {
            let mut events = (self.events)();
            let mut listing = Listing::default();
            // After an error the stream resumes by itself; it has to be recreated only if it ends.
            loop {
                match events.try_next().await {
                    Ok(Some(event)) => self.handle_event(event, &mut listing),
                    Ok(None) => break,
                    Err(error) => self.handle_error(&error).await,
                }
            }
            self.back_off(1).await;
        }
    }

    fn handle_event(&self, event: Event<DeserializeGuard<K>>, listing: &mut Listing<K>) {
        match event {
            Event::Init => *listing = Listing::default(),
            Event::InitApply(DeserializeGuard(Ok(object))) => listing.insert(self.prune(object)),
            Event::InitApply(DeserializeGuard(Err(invalid))) => {
                let key = Key::from(&invalid.metadata);
                self.log_invalid(&key, &invalid.error);
                listing.insert_invalid(key, invalid.error);
            }
            Event::InitDone => {
                let changes = self.cache.replace(std::mem::take(listing));
                tracing::debug!(kind = self.kind, changes = changes.len(), "watch listed");
                changes.iter().for_each(|change| self.notify(change));
            }
            Event::Apply(DeserializeGuard(Ok(object))) => {
                self.cache.apply(self.prune(object)).iter().for_each(|change| self.notify(change));
            }
            Event::Apply(DeserializeGuard(Err(invalid))) => {
                let key = Key::from(&invalid.metadata);
                let (is_new, deleted) = self.cache.mark_invalid(key.clone(), invalid.error.clone());
                if is_new {
                    self.log_invalid(&key, &invalid.error);
                }
                deleted.iter().for_each(|change| self.notify(change));
            }
            Event::Delete(guard) => {
                let key = Key::from(guard.meta());
                self.cache.delete(&key).iter().for_each(|change| self.notify(change));
            }
        }
        self.record_success();
    }

    fn prune(&self, object: K) -> K {
        let mut object = prune(object);
        (self.modify)(&mut object);
        object
    }

    fn record_success(&self) {
        self.progress.record_success();
        let kind = KindLabels { kind: self.kind.clone() };
        let (valid, invalid) = self.cache.counts();
        self.metrics.watch_objects.get_or_create(&kind).set(i64::try_from(valid).unwrap_or(i64::MAX));
        self.metrics.watch_broken.get_or_create(&kind).set(i64::try_from(invalid).unwrap_or(i64::MAX));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.metrics
            .watch_progress
            .get_or_create(&kind)
            .set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    }

    fn notify(&self, change: &Change<K>) {
        self.listeners.iter().for_each(|listener| listener(change));
    }

    fn log_invalid(&self, key: &Key, error: &str) {
        tracing::warn!(kind = self.kind, object = %key, error, "skipping object that failed to deserialize");
    }

    async fn handle_error(&self, error: &watcher::Error) {
        let cause = cause::classify(error);
        let labels = CauseLabels { kind: self.kind.clone(), cause: cause.to_owned() };
        self.metrics.watch_restarts.get_or_create(&labels).inc();
        let failures = self.progress.record_failure(error.to_string());
        // Logged once per series of failures; the counter has the number of attempts.
        if failures == 1 {
            tracing::warn!(kind = self.kind, cause, %error, "watch failed; retrying");
        }
        self.back_off(failures).await;
    }

    fn back_off(&self, failures: u32) -> impl Future<Output = ()> + use<K> {
        tokio::time::sleep(BACKOFF.delay(failures, fastrand::f64()))
    }
}

fn with_timeout(mut config: watcher::Config) -> watcher::Config {
    config.timeout.get_or_insert(u32::try_from(WATCH_TIMEOUT.as_secs()).unwrap_or(u32::MAX));
    config
}

/// Drops `managedFields`, which are half of an object's size, and the last applied configuration. Neither is read here.
fn prune<K: Resource>(mut object: K) -> K {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    let annotations = &mut meta.annotations;
    if let Some(all) = annotations {
        all.remove(LAST_APPLIED);
        if all.is_empty() {
            *annotations = None;
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    #[tokio::test]
    async fn cluster_wide_secrets_are_never_cached() {
        let client =
            kube::Client::try_from(kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"))).unwrap();
        let (config, metrics) = (watcher::Config::default(), Metrics::new());
        let all = Watch::<Secret>::new(Api::all(client.clone()), config.clone(), &metrics);
        assert_eq!(all.err(), Some(ClusterWideSecrets));
        assert!(Watch::<Secret>::new(Api::namespaced(client.clone(), "a"), config.clone(), &metrics).is_ok());
        assert!(Watch::<ConfigMap>::new(Api::all(client), config, &metrics).is_ok());
    }

    #[test]
    fn managed_fields_and_last_applied_are_pruned() {
        let map: ConfigMap = serde_json::from_value(serde_json::json!({
            "metadata": {
                "name": "a",
                "annotations": { LAST_APPLIED: "{}", "kept": "yes" },
                "managedFields": [{ "manager": "kubectl" }],
            },
        }))
        .unwrap();
        let meta = prune(map).metadata;
        assert_eq!(meta.managed_fields, None);
        assert_eq!(meta.annotations.unwrap().into_keys().collect::<Vec<_>>(), ["kept"]);
    }
}
