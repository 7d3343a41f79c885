//! Read your writes. A reconcile that reads a cache without our own last write would repeat the decision behind it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kube::Resource;
use prometheus_client::metrics::counter::Counter;

use crate::key::Key;
use crate::metrics::{ControllerLabels, Metrics};
use crate::sync::lock;

/// How long to wait for the cache to catch up before the object is read from the API server.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// The last write per object that the cache has not observed yet.
#[derive(Debug)]
pub struct OwnWrites {
    expected: Mutex<HashMap<Key, Expected>>,
    stale_waits: Counter,
}

#[derive(Debug)]
struct Expected {
    version: String,
    since: Instant,
}

/// How a cached object relates to our last write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The cache includes our last write.
    Current,
    /// The cache does not include our last write yet: wait for the next watch event.
    Behind,
    /// The cache did not catch up in time: read the object from the API server.
    TimedOut,
}

impl OwnWrites {
    /// Creates an empty record. `controller` is the label of the wait counter.
    #[must_use]
    pub fn new(controller: &str, metrics: &Metrics) -> Self {
        let labels = ControllerLabels { controller: controller.to_owned() };
        Self { expected: Mutex::default(), stale_waits: metrics.stale_waits.get_or_create_owned(&labels) }
    }

    /// Records a write. `object` is the API server's response to it.
    pub fn record<K: Resource>(&self, object: &K) {
        let Some(version) = object.meta().resource_version.clone() else { return };
        let expected = Expected { version, since: Instant::now() };
        lock(&self.expected).insert(Key::from_object(object), expected);
    }

    /// Compares the cached object (`None` if the cache has none) with our last write.
    pub fn freshness<K: Resource>(&self, key: &Key, cached: Option<&K>) -> Freshness {
        self.freshness_at(key, cached, Instant::now())
    }

    fn freshness_at<K: Resource>(&self, key: &Key, cached: Option<&K>, now: Instant) -> Freshness {
        let mut all = lock(&self.expected);
        let Some(expected) = all.get(key) else { return Freshness::Current };
        if cached.is_some_and(|cached| includes(expected, cached)) {
            all.remove(key);
            return Freshness::Current;
        }
        self.stale_waits.inc();
        // If the object was deleted after our write, the cache never catches up: only a read from the API server can tell.
        if now.saturating_duration_since(expected.since) < CATCH_UP_TIMEOUT {
            Freshness::Behind
        } else {
            Freshness::TimedOut
        }
    }

    /// Returns whether `object` is the watch event for our own last write, which needs no reconcile.
    pub fn is_echo<K: Resource>(&self, object: &K) -> bool {
        let version = object.meta().resource_version.as_deref();
        lock(&self.expected)
            .get(&Key::from_object(object))
            .is_some_and(|expected| version == Some(&expected.version))
    }

    /// Forgets our last write: the object was read from the API server, or is known to be deleted.
    pub fn forget(&self, key: &Key) {
        lock(&self.expected).remove(key);
    }
}

/// Resource versions of one kind compare as numbers: Kubernetes guarantees it since 1.35, and all earlier versions do it too.
/// Versions that are not numbers must be equal.
fn includes<K: Resource>(expected: &Expected, cached: &K) -> bool {
    let version = cached.meta().resource_version.as_deref().unwrap_or_default();
    match (version.parse::<u128>(), expected.version.parse::<u128>()) {
        (Ok(cached), Ok(expected)) => cached >= expected,
        _ => version == expected.version,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn map(uid: &str, version: &str) -> ConfigMap {
        let metadata = ObjectMeta {
            name: Some("a".into()),
            uid: Some(uid.into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    #[test]
    fn cache_is_current_once_it_includes_our_write() {
        let own = OwnWrites::new("test", &Metrics::new());
        let now = Instant::now();
        let key = Key::from_object(&map("u", "1"));
        let freshness = |cached: Option<&ConfigMap>| own.freshness_at(&key, cached, now);
        assert_eq!(freshness(None), Freshness::Current, "no write is pending");
        own.record(&map("u", "10"));
        assert_eq!(freshness(None), Freshness::Behind);
        assert_eq!(freshness(Some(&map("u", "9"))), Freshness::Behind);
        assert_eq!(
            own.freshness_at(&key, Some(&map("u", "9")), now + Duration::from_secs(60)),
            Freshness::TimedOut
        );
        assert_eq!(freshness(Some(&map("u", "10"))), Freshness::Current);
        own.record(&map("u", "10"));
        assert_eq!(
            freshness(Some(&map("u", "11"))),
            Freshness::Current,
            "a newer version includes our write"
        );
        own.record(&map("u", "12"));
        assert!(
            own.is_echo(&map("u", "12")) && !own.is_echo(&map("u", "13")) && !own.is_echo(&map("u", "11"))
        );
        own.record(&map("v", "12"));
        assert_eq!(
            freshness(Some(&map("u", "11"))),
            Freshness::Behind,
            "the cache still holds the deleted object of the same name"
        );
    }
}
