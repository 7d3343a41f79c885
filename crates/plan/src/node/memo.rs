//! What was computed before from the same input. It only saves time: without it every decision is the same.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use api::SeiNode;
use api::applied::{self, Standing};
use kube_core::Resource;
use serde::Serialize;

use super::observe::kind_of;
use crate::render::Refusal;

/// What was computed before about one node. It is kept from pass to pass, and forgets everything when the spec changes.
///
/// A process has one platform: what is rendered depends on nothing else that changes.
#[derive(Debug, Default)]
pub struct Memo(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The uid and the generation of the node that this is about.
    of: (String, i64),
    /// Hashes of wishes, by what is wished for.
    wishes: BTreeMap<&'static str, String>,
    /// What live objects hold that are as wished, by their kind.
    as_wished: BTreeMap<&'static str, u64>,
}

impl Memo {
    /// The hash of what is wanted of an object, which `render` gives if it is not known.
    pub(super) fn wish<K: Serialize>(
        &self,
        node: &SeiNode,
        what: &'static str,
        render: impl FnOnce() -> Result<K, Refusal>,
    ) -> Result<String, Refusal> {
        if let Some(hash) = self.of(node, |known| known.wishes.get(what).cloned()) {
            return Ok(hash);
        }
        let hash = applied::hash(&render()?).map_err(|error| Refusal(error.to_string()))?;
        self.of(node, |known| known.wishes.insert(what, hash.clone()));
        Ok(hash)
    }

    /// How a live object stands to the wish with this hash, which `render` gives if the two were not compared before.
    pub(super) fn standing<K, L>(
        &self,
        node: &SeiNode,
        live: &L,
        hash: &str,
        render: impl FnOnce() -> Result<K, Refusal>,
    ) -> Standing
    where
        K: Serialize,
        L: Resource<DynamicType = ()> + Serialize,
    {
        if !applied::is_from(live, hash) {
            return Standing::OtherWish;
        }
        let known = self.of(node, |known| known.as_wished.get(kind_of::<L>()).copied());
        if known.is_some() && known == content(live) {
            return Standing::AsWished;
        }
        let standing = render().ok().and_then(|desired| applied::standing(live, &desired, hash).ok());
        let standing = standing.unwrap_or(Standing::OtherWish);
        if standing == Standing::AsWished {
            self.found_as_wished(node, live);
        }
        standing
    }

    /// A live object is as it is wanted now: we have compared them, or the API server has just applied what is wanted.
    pub fn found_as_wished<L: Resource<DynamicType = ()>>(&self, node: &SeiNode, live: &L) {
        if let Some(content) = content(live) {
            self.of(node, |known| known.as_wished.insert(kind_of::<L>(), content));
        }
    }

    fn of<T>(&self, node: &SeiNode, access: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = node.metadata.uid.as_deref().unwrap_or_default();
        let generation = node.metadata.generation.unwrap_or_default();
        if known.of.0 != uid || known.of.1 != generation {
            *known = Known { of: (uid.to_owned(), generation), ..Known::default() };
        }
        access(&mut known)
    }
}

/// Tells what an object holds from what it held before, but for its status: the generation counts changes of the spec, where
/// there is one, and the version counts everything.
fn content<L: Resource>(live: &L) -> Option<u64> {
    let meta = live.meta();
    let version = meta.resource_version.as_ref()?;
    let count = meta.generation.map_or_else(|| version.clone(), |generation| generation.to_string());
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
    (&meta.uid, count, &meta.labels, &meta.annotations, owners).hash(&mut hasher);
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

    fn wished() -> NetworkPolicy {
        policy(|policy| policy["metadata"] = json!({ "name": "a", "labels": { "a": "b" } }))
    }

    fn unasked() -> Result<NetworkPolicy, Refusal> {
        panic!("it was rendered again")
    }

    #[test]
    fn what_was_found_as_wished_is_compared_again_only_when_it_may_differ() {
        let memo = Memo::default();
        let now = node(1);
        let hash = memo.wish(&now, "NetworkPolicy", || Ok(wished())).unwrap();
        assert_eq!(memo.wish(&now, "NetworkPolicy", unasked).unwrap(), hash);
        let live = |change: fn(&mut Value)| {
            let mut live = policy(change);
            applied::sign(&mut live, &hash);
            live
        };
        assert_eq!(memo.standing(&now, &live(|_| {}), &hash, || Ok(wished())), Standing::AsWished);
        let only_versions = live(|policy| policy["metadata"]["resourceVersion"] = json!("8"));
        assert_eq!(memo.standing(&now, &only_versions, &hash, unasked), Standing::AsWished);
        for change in [
            (|policy| {
                policy["metadata"]["generation"] = json!(2);
                policy["spec"]["policyTypes"] = json!([]);
            }) as fn(&mut Value),
            |policy| policy["metadata"]["labels"] = json!({ "a": "c" }),
        ] {
            let changed = live(change);
            assert_eq!(memo.standing(&now, &changed, &hash, || Ok(wished())), Standing::Changed);
        }
        assert_eq!(memo.standing(&now, &policy(|_| {}), &hash, unasked), Standing::OtherWish);
    }

    #[test]
    fn another_spec_has_another_memory() {
        let memo = Memo::default();
        let hash = memo.wish(&node(1), "NetworkPolicy", || Ok(wished())).unwrap();
        let other = || Ok(policy(|policy| policy["spec"]["policyTypes"] = json!(["Egress"])));
        assert_ne!(memo.wish(&node(2), "NetworkPolicy", other).unwrap(), hash);
        let known = memo.wish(&node(2), "NetworkPolicy", unasked);
        assert_eq!(memo.wish(&node(2), "NetworkPolicy", unasked), known, "until the next one");
    }
}
