//! Read your writes: a decision made on a cache that has not seen our own last write would be made twice.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::Resource;
use prometheus_client::metrics::counter::Counter;

use crate::key::Key;
use crate::metrics::{ByController, Metrics};

/// After this time a cache that has not caught up is not waited for any more: the object is read from the API server.
const PATIENCE: Duration = Duration::from_secs(5);

/// What we wrote and the cache must come to see.
#[derive(Debug)]
pub struct OwnWrites {
    expected: Mutex<HashMap<Key, Expected>>,
    waits: Counter,
}

#[derive(Debug)]
struct Expected {
    version: String,
    since: Instant,
}

/// Whether a cache can be trusted for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It has seen our last write, or something newer.
    Current,
    /// Not yet: wait for its next news of the object.
    Behind,
    /// Not for too long: read the object from the API server.
    Lost,
}

impl OwnWrites {
    /// Nothing written yet, by this controller.
    #[must_use]
    pub fn new(controller: &str, metrics: &Metrics) -> Self {
        let labels = ByController { controller: controller.to_owned() };
        Self { expected: Mutex::default(), waits: metrics.stale_waits.get_or_create_owned(&labels) }
    }

    /// We wrote this; what the API server answered.
    pub fn wrote<K: Resource>(&self, object: &K) {
        let Some(version) = object.meta().resource_version.clone() else { return };
        let expected = Expected { version, since: Instant::now() };
        self.with(|all| all.insert(Key::of(object), expected));
    }

    /// Whether what the cache has of an object (nothing, if it has none) is at least as new as our last write.
    pub fn sight<K: Resource>(&self, key: &Key, cached: Option<&K>) -> Sight {
        self.sight_at(key, cached, Instant::now())
    }

    fn sight_at<K: Resource>(&self, key: &Key, cached: Option<&K>, now: Instant) -> Sight {
        let sight = self.with(|all| {
            let Some(expected) = all.get(key) else { return Sight::Current };
            if cached.is_some_and(|cached| has_seen(expected, cached)) {
                all.remove(key);
                return Sight::Current;
            }
            // The write may have been followed by a deletion that the cache has seen already: only reading tells.
            if now.saturating_duration_since(expected.since) < PATIENCE { Sight::Behind } else { Sight::Lost }
        });
        if sight != Sight::Current {
            self.waits.inc();
        }
        sight
    }

    /// Whether this is our own last write, come back: no news for whoever went on with the API server's answer to it.
    pub fn is_echo<K: Resource>(&self, object: &K) -> bool {
        let version = object.meta().resource_version.as_deref();
        self.with(|all| all.get(&Key::of(object)).is_some_and(|expected| version == Some(&expected.version)))
    }

    /// The object was read from the API server, or is known to be gone.
    pub fn forget(&self, key: &Key) {
        self.with(|all| all.remove(key));
    }

    fn with<T>(&self, access: impl FnOnce(&mut HashMap<Key, Expected>) -> T) -> T {
        access(&mut self.expected.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Versions of one kind can be compared as numbers, which Kubernetes promises since 1.35 and has always kept; where they
/// are none, only the very same counts.
fn has_seen<K: Resource>(expected: &Expected, cached: &K) -> bool {
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
    fn a_cache_is_trusted_once_it_has_seen_our_write() {
        let own = OwnWrites::new("test", &Metrics::new());
        let now = Instant::now();
        let key = Key::of(&map("u", "1"));
        let sight = |cached: Option<&ConfigMap>| own.sight_at(&key, cached, now);
        assert_eq!(sight(None), Sight::Current, "we wrote nothing");
        own.wrote(&map("u", "10"));
        assert_eq!(sight(None), Sight::Behind);
        assert_eq!(sight(Some(&map("u", "9"))), Sight::Behind);
        assert_eq!(own.sight_at(&key, Some(&map("u", "9")), now + Duration::from_secs(60)), Sight::Lost);
        assert_eq!(sight(Some(&map("u", "10"))), Sight::Current);
        own.wrote(&map("u", "10"));
        assert_eq!(sight(Some(&map("u", "11"))), Sight::Current, "newer will do");
        own.wrote(&map("u", "12"));
        assert!(
            own.is_echo(&map("u", "12")) && !own.is_echo(&map("u", "13")) && !own.is_echo(&map("u", "11"))
        );
        own.wrote(&map("v", "12"));
        assert_eq!(sight(Some(&map("u", "11"))), Sight::Behind, "an older object of the same name");
    }
}
