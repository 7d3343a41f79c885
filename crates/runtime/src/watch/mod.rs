//! Supervised watches: each kind has a task, a backoff and a cache of its own, so that one that breaks disturbs no other.

mod cache;
mod cause;
mod guarded;
mod kept;
mod shelf;

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use kube::core::metadata::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use self::cache::Listing;
pub use self::cache::{Cache, Change};
pub use self::guarded::Guarded;
use crate::key::Key;
use crate::metrics::{ByCause, ByKind, Metrics};
use crate::progress::Progress;

/// How long the API server keeps a watch open. Short, since it is also how long a lost connection can go unnoticed.
pub const LIFE: Duration = Duration::from_secs(120);

/// The wait before a broken watch begins anew: short at most, so that the first edit after an outage is seen soon. A
/// process has some ten watches, which is no load.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// A watch that breaks for so long no longer counts as alive.
const SILENCE: Duration = Duration::from_secs(300);

/// Kept by `kubectl apply`: a second copy of each object, which nobody here reads.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

type Events<K> = BoxStream<'static, watcher::Result<Event<Guarded<K>>>>;

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// Keys and tokens of a whole cluster do not belong into the memory of one process, and are most of what it would hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Secrets of the whole cluster are never cached: watch their metadata, or those of one namespace")]
pub struct SecretsOfAll;

/// A watch that is about to begin.
pub struct Watch<K: Resource> {
    kind: String,
    events: Box<dyn Fn() -> Events<K> + Send + Sync>,
    cache: Cache<K>,
    tell: Vec<Listener<K>>,
    keep: fn(&mut K),
    metrics: Metrics,
    progress: Progress,
}

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// A watch of whole objects. They are read one by one: one that cannot be read does not take the others with it.
    pub fn of(
        api: Api<Guarded<K>>,
        config: watcher::Config,
        metrics: &Metrics,
    ) -> Result<Self, SecretsOfAll> {
        if K::kind(&()) == "Secret" && api.namespace().is_none() {
            return Err(SecretsOfAll);
        }
        let config = short(config);
        Ok(Self::from_events(metrics, move || watcher::watcher(api.clone(), config.clone()).boxed()))
    }

    fn from_events(metrics: &Metrics, events: impl Fn() -> Events<K> + Send + Sync + 'static) -> Self {
        let kind = K::plural(&()).into_owned();
        Self {
            progress: Progress::new(format!("watch {kind}"), SILENCE),
            kind,
            events: Box::new(events),
            cache: Cache::new(),
            tell: Vec::new(),
            keep: |_| {},
            metrics: metrics.clone(),
        }
    }

    /// The cache it fills.
    #[must_use]
    pub fn cache(&self) -> Cache<K> {
        self.cache.clone()
    }

    /// How it is doing.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Takes out of every object what nobody reads, before it is kept: a cache holds thousands of them.
    #[must_use]
    pub fn keeping(mut self, keep: fn(&mut K)) -> Self {
        self.keep = keep;
        self
    }

    /// Calls `tell` for every change, after the cache holds it. It must not block.
    #[must_use]
    pub fn tell(mut self, tell: impl Fn(&Change<K>) + Send + Sync + 'static) -> Self {
        self.tell.push(Box::new(tell));
        self
    }

    /// Watches until it is dropped.
    pub async fn run(self) {
        loop {
            let mut events = (self.events)();
            let mut listing = Listing::default();
            // The stream goes on by itself after an error, from where it was; it is made anew only if it ends.
            loop {
                match events.try_next().await {
                    Ok(Some(event)) => self.take(event, &mut listing),
                    Ok(None) => break,
                    Err(error) => self.broke(&error).await,
                }
            }
            self.wait(1).await;
        }
    }

    fn take(&self, event: Event<Guarded<K>>, listing: &mut Listing<K>) {
        match event {
            Event::Init => *listing = Listing::default(),
            Event::InitApply(Guarded(Ok(object))) => listing.good(self.pruned(object)),
            Event::InitApply(Guarded(Err(broken))) => {
                let key = Key::from(&broken.metadata);
                self.say_broken(&key, &broken.error);
                listing.broken(key, broken.error);
            }
            Event::InitDone => {
                let changes = self.cache.listed(std::mem::take(listing));
                tracing::debug!(kind = self.kind, changes = changes.len(), "listed");
                changes.iter().for_each(|change| self.say(change));
            }
            Event::Apply(Guarded(Ok(object))) => {
                self.cache.applied(self.pruned(object)).iter().for_each(|change| self.say(change));
            }
            Event::Apply(Guarded(Err(broken))) => {
                let key = Key::from(&broken.metadata);
                let (news, gone) = self.cache.cannot_read(key.clone(), broken.error.clone());
                if news {
                    self.say_broken(&key, &broken.error);
                }
                gone.iter().for_each(|change| self.say(change));
            }
            Event::Delete(guard) => {
                let key = Key::from(guard.meta());
                self.cache.deleted(&key).iter().for_each(|change| self.say(change));
            }
        }
        self.in_order();
    }

    fn pruned(&self, object: K) -> K {
        let mut object = pruned(object);
        (self.keep)(&mut object);
        object
    }

    fn in_order(&self) {
        self.progress.made();
        let kind = ByKind { kind: self.kind.clone() };
        let (good, broken) = self.cache.len();
        self.metrics.watch_objects.get_or_create(&kind).set(i64::try_from(good).unwrap_or(i64::MAX));
        self.metrics.watch_broken.get_or_create(&kind).set(i64::try_from(broken).unwrap_or(i64::MAX));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.metrics
            .watch_progress
            .get_or_create(&kind)
            .set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    }

    fn say(&self, change: &Change<K>) {
        self.tell.iter().for_each(|tell| tell(change));
    }

    fn say_broken(&self, key: &Key, why: &str) {
        tracing::warn!(kind = self.kind, object = %key, why, "an object cannot be read and is left alone until it is mended");
    }

    async fn broke(&self, error: &watcher::Error) {
        let cause = cause::of(error);
        let labels = ByCause { kind: self.kind.clone(), cause: cause.to_owned() };
        self.metrics.watch_restarts.get_or_create(&labels).inc();
        let failures = self.progress.failed(error.to_string());
        // Once when it breaks, not at each of many tries: the counter tells how many these were.
        if failures == 1 {
            tracing::warn!(kind = self.kind, cause, %error, "a watch broke; trying again");
        }
        self.wait(failures).await;
    }

    fn wait(&self, failures: u32) -> impl Future<Output = ()> + use<K> {
        let backoff = crate::queue::Backoff { first: FIRST_WAIT, most: LONGEST_WAIT };
        tokio::time::sleep(backoff.after(failures, fastrand::f64()))
    }
}

impl<K> Watch<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// A watch of metadata only: for kinds whose content is large, or must not be held, like that of Secrets.
    #[must_use]
    pub fn of_metadata(api: Api<PartialObjectMeta<K>>, config: watcher::Config, metrics: &Metrics) -> Self {
        let config = short(config);
        Self::from_events(metrics, move || {
            let events = watcher::watcher(api.clone(), config.clone());
            events.map_ok(guard).boxed()
        })
    }
}

/// Metadata can always be read.
fn guard<K>(event: Event<K>) -> Event<Guarded<K>> {
    let good = |object| Guarded(Ok(object));
    match event {
        Event::Apply(object) => Event::Apply(good(object)),
        Event::Delete(object) => Event::Delete(good(object)),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(good(object)),
        Event::InitDone => Event::InitDone,
    }
}

fn short(mut config: watcher::Config) -> watcher::Config {
    config.timeout.get_or_insert(u32::try_from(LIFE.as_secs()).unwrap_or(u32::MAX));
    config
}

/// Who wrote which field is half of an object's size, and read by nobody here.
fn pruned<K: Resource>(mut object: K) -> K {
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
    async fn secrets_of_the_whole_cluster_are_never_cached() {
        let client =
            kube::Client::try_from(kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"))).unwrap();
        let (config, metrics) = (watcher::Config::default(), Metrics::new());
        let all = Watch::<Secret>::of(Api::all(client.clone()), config.clone(), &metrics);
        assert_eq!(all.err(), Some(SecretsOfAll));
        assert!(Watch::<Secret>::of(Api::namespaced(client.clone(), "a"), config.clone(), &metrics).is_ok());
        assert!(Watch::<ConfigMap>::of(Api::all(client.clone()), config.clone(), &metrics).is_ok());
        let metadata = Watch::<PartialObjectMeta<Secret>>::of_metadata(Api::all(client), config, &metrics);
        assert_eq!(metadata.kind, "secrets");
    }

    #[test]
    fn what_nobody_reads_is_not_kept() {
        let map: ConfigMap = serde_json::from_value(serde_json::json!({
            "metadata": {
                "name": "a",
                "annotations": { LAST_APPLIED: "{}", "kept": "yes" },
                "managedFields": [{ "manager": "kubectl" }],
            },
        }))
        .unwrap();
        let meta = pruned(map).metadata;
        assert_eq!(meta.managed_fields, None);
        assert_eq!(meta.annotations.unwrap().into_keys().collect::<Vec<_>>(), ["kept"]);
    }
}
