//! Caches rendered hashes and comparisons between reconciles. It only saves time: without it every decision is the
//! same.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use api::SeiNode;
use api::drift::{self, Drift};
use api::sei_node::SidecarIsolation;
use kube_core::Resource;
use serde::Serialize;

use super::context::kind_of;
use super::isolation::own_isolation;
use crate::render::{self, RenderError};

/// Rendered hashes and comparisons of one node. They are kept between reconciles, and dropped when the spec changes.
///
/// The platform is constant in a process: what is rendered depends on nothing else that changes, except one annotation, and the
/// isolation of a node that is rendered as it runs.
#[derive(Debug, Default)]
pub struct RenderCache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// The uid and the generation of the node that the entries are about, and whether its pod may be evicted.
    node: (String, i64, bool),
    /// Hashes of desired objects, by kind and isolation.
    desired: BTreeMap<(&'static str, Option<SidecarIsolation>), String>,
    /// Hashes of the content of live objects that are in sync, by kind.
    in_sync: BTreeMap<&'static str, u64>,
}

impl RenderCache {
    /// Returns the hash of a desired object, and calls `render` if it is not cached.
    pub(super) fn desired_hash<K: Serialize>(
        &self,
        node: &SeiNode,
        kind: &'static str,
        render: impl FnOnce() -> Result<K, RenderError>,
    ) -> Result<String, RenderError> {
        let key = (kind, own_isolation(node));
        if let Some(hash) = self.with_entries(node, |entries| entries.desired.get(&key).cloned()) {
            return Ok(hash);
        }
        let hash = drift::hash(&render()?).map_err(|error| RenderError(error.to_string()))?;
        self.with_entries(node, |entries| entries.desired.insert(key, hash.clone()));
        Ok(hash)
    }

    /// Compares a live object with the desired one that has this hash, and calls `render` if they were not compared
    /// before.
    pub(super) fn compare<K, L>(
        &self,
        node: &SeiNode,
        live: &L,
        hash: &str,
        render: impl FnOnce() -> Result<K, RenderError>,
    ) -> Drift
    where
        K: Serialize,
        L: Resource<DynamicType = ()> + Serialize,
    {
        if !drift::is_applied_from(live, hash) {
            return Drift::Outdated;
        }
        let known = self.with_entries(node, |entries| entries.in_sync.get(kind_of::<L>()).copied());
        if known.is_some() && known == content_hash(live) {
            return Drift::InSync;
        }
        let drift = render().ok().and_then(|desired| drift::detect(live, &desired, hash).ok());
        let drift = drift.unwrap_or(Drift::Outdated);
        if drift == Drift::InSync {
            self.record_in_sync(node, live);
        }
        drift
    }

    /// Records that a live object is in sync: it was compared, or the API server has just applied the desired object.
    pub fn record_in_sync<L: Resource<DynamicType = ()>>(&self, node: &SeiNode, live: &L) {
        if let Some(content) = content_hash(live) {
            self.with_entries(node, |entries| entries.in_sync.insert(kind_of::<L>(), content));
        }
    }

    fn with_entries<T>(&self, node: &SeiNode, access: impl FnOnce(&mut Entries) -> T) -> T {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = node.metadata.uid.as_deref().unwrap_or_default();
        let generation = node.metadata.generation.unwrap_or_default();
        let is_evictable = render::is_eviction_allowed(node);
        if entries.node.0 != uid || entries.node.1 != generation || entries.node.2 != is_evictable {
            *entries = Entries { node: (uid.to_owned(), generation, is_evictable), ..Entries::default() };
        }
        access(&mut entries)
    }
}

/// Hashes the content of an object except its status. The generation counts changes of the spec, for kinds that have
/// one; for other kinds the resource version counts every change.
fn content_hash<L: Resource>(live: &L) -> Option<u64> {
    let meta = live.meta();
    let version = meta.resource_version.as_ref()?;
    let revision = meta.generation.map_or_else(|| version.clone(), |generation| generation.to_string());
    let owners: Vec<_> = meta
        .owner_references
        .iter()
        .flatten()
        .map(|owner| {
            (
                &owner.api_version,
                &owner.kind,
                &owner.name,
                &owner.uid,
                owner.controller,
                owner.block_owner_deletion,
            )
        })
        .collect();
    let mut hasher = DefaultHasher::new();
    (&meta.uid, revision, &meta.labels, &meta.annotations, owners).hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::networking::v1::NetworkPolicy;
    use serde_json::{Value, json};

    use super::*;

    fn node(generation: i64) -> SeiNode {
        let spec = json!({ "chainId": "c", "image": "i", "fullNode": {} });
        let metadata = json!({ "name": "a", "uid": "u", "generation": generation });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    fn policy(change: impl FnOnce(&mut Value)) -> NetworkPolicy {
        let mut policy = json!({
            "metadata": { "name": "a", "uid": "p", "generation": 1, "resourceVersion": "7", "labels": { "a": "b" } },
            "spec": { "podSelector": {}, "policyTypes": ["Ingress"] },
        });
        change(&mut policy);
        serde_json::from_value(policy).unwrap()
    }

    fn desired() -> NetworkPolicy {
        policy(|policy| policy["metadata"] = json!({ "name": "a", "labels": { "a": "b" } }))
    }

    fn must_not_render() -> Result<NetworkPolicy, RenderError> {
        panic!("rendered again")
    }

    #[test]
    fn in_sync_object_is_compared_again_only_after_a_change() {
        let cache = RenderCache::default();
        let now = node(1);
        let hash = cache.desired_hash(&now, "NetworkPolicy", || Ok(desired())).unwrap();
        assert_eq!(cache.desired_hash(&now, "NetworkPolicy", must_not_render).unwrap(), hash);
        let live = |change: fn(&mut Value)| {
            let mut live = policy(change);
            drift::annotate(&mut live, &hash);
            live
        };
        assert_eq!(cache.compare(&now, &live(|_| {}), &hash, || Ok(desired())), Drift::InSync);
        let other_version = live(|policy| policy["metadata"]["resourceVersion"] = json!("8"));
        assert_eq!(cache.compare(&now, &other_version, &hash, must_not_render), Drift::InSync);
        for change in [
            (|policy| {
                policy["metadata"]["generation"] = json!(2);
                policy["spec"]["policyTypes"] = json!([]);
            }) as fn(&mut Value),
            |policy| policy["metadata"]["labels"] = json!({ "a": "c" }),
        ] {
            let changed = live(change);
            assert_eq!(cache.compare(&now, &changed, &hash, || Ok(desired())), Drift::Modified);
        }
        assert_eq!(cache.compare(&now, &policy(|_| {}), &hash, must_not_render), Drift::Outdated);
    }

    #[test]
    fn cache_is_dropped_when_the_generation_changes() {
        let cache = RenderCache::default();
        let hash = cache.desired_hash(&node(1), "NetworkPolicy", || Ok(desired())).unwrap();
        let other = || Ok(policy(|policy| policy["spec"]["policyTypes"] = json!(["Egress"])));
        assert_ne!(cache.desired_hash(&node(2), "NetworkPolicy", other).unwrap(), hash);
        let cached = cache.desired_hash(&node(2), "NetworkPolicy", must_not_render);
        assert_eq!(cache.desired_hash(&node(2), "NetworkPolicy", must_not_render), cached);
    }
}
