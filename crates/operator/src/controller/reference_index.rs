//! Index of the objects that nodes reference: Secrets, claims and peers. It is queried for every claim of the cluster that changes, and
//! for every pod of a node that is deleted, so that thousands of converged nodes need not be scanned.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use api::SeiNode;
use api::names::object;
use kube::ResourceExt;
use plan::node::{NodeKind, desired_tls};
use runtime::Key;
use runtime::sync::lock;
use runtime::watch::Change;

/// The references of all nodes.
#[derive(Debug, Default)]
pub(super) struct ReferenceIndex(Mutex<HashMap<Key, References>>);

/// The references of one node. Most nodes have none.
#[derive(Debug, Default, PartialEq, Eq)]
struct References {
    secrets: Vec<String>,
    imported_claim: Option<String>,
    /// Whether a peer source selects nodes by label.
    selects_peers: bool,
    /// The labels of the node itself, which the peer sources of others select.
    labels: BTreeMap<String, String>,
}

impl ReferenceIndex {
    /// Updates the index from a change of a node.
    pub(super) fn update(&self, change: &Change<SeiNode>) {
        let node = change.object();
        let is_gone = matches!(change, Change::Deleted(_));
        let references = if is_gone { References::default() } else { References::from_node(node) };
        if references == References::default() {
            lock(&self.0).remove(&Key::from_object(&**node));
        } else {
            lock(&self.0).insert(Key::from_object(&**node), references);
        }
    }

    /// Returns the nodes that reference a Secret.
    pub(super) fn nodes_using_secret(&self, secret: &Key) -> Vec<Key> {
        self.find(|node, references| {
            node.namespace == secret.namespace && references.secrets.contains(&secret.name)
        })
    }

    /// Returns the nodes that import a claim.
    pub(super) fn nodes_importing_claim(&self, claim: &Key) -> Vec<Key> {
        self.find(|node, references| {
            node.namespace == claim.namespace && references.imported_claim.as_deref() == Some(&claim.name)
        })
    }

    /// Returns the nodes that reference a Secret or a claim of this node, which may be deleted.
    pub(super) fn nodes_sharing_with(&self, node: &SeiNode) -> Vec<Key> {
        let own = References::from_node(node);
        let key = Key::from_object(node);
        let claim = own.imported_claim.unwrap_or_else(|| object::data_claim(&key.name));
        self.find(|other, references| {
            *other != key
                && other.namespace == key.namespace
                && (references.imported_claim.as_ref() == Some(&claim)
                    || references.secrets.iter().any(|secret| own.secrets.contains(secret)))
        })
    }

    /// Returns the nodes that select peers by label.
    pub(super) fn nodes_selecting_peers(&self) -> Vec<Key> {
        self.find(|_, references| references.selects_peers)
    }

    /// Returns the nodes of a namespace that match a label selector.
    pub(super) fn nodes_with_labels(&self, namespace: &str, selector: &BTreeMap<String, String>) -> Vec<Key> {
        self.find(|node, references| {
            node.namespace == namespace
                && selector.iter().all(|(name, value)| references.labels.get(name) == Some(value))
        })
    }

    fn find(&self, matches: impl Fn(&Key, &References) -> bool) -> Vec<Key> {
        let index = lock(&self.0);
        index
            .iter()
            .filter(|(node, references)| matches(node, references))
            .map(|(node, _)| node.clone())
            .collect()
    }
}

impl References {
    fn from_node(node: &SeiNode) -> Self {
        let keys = NodeKind::from_spec(&node.spec).map(NodeKind::key_secrets).unwrap_or_default();
        let keyring = keys.operator_keyring.as_ref();
        let secrets = [
            keyring.map(|keyring| keyring.secret_name.clone()),
            keyring.map(|keyring| keyring.passphrase_secret_ref.secret_name.clone()),
            keys.signing_key.clone(),
            keys.node_key.clone(),
            desired_tls(node).secret_name,
        ];
        let import = node.spec.data_volume.as_ref().and_then(|volume| volume.import.as_ref());
        Self {
            secrets: secrets.into_iter().flatten().collect(),
            imported_claim: import.map(|import| import.pvc_name.clone()),
            selects_peers: node.spec.peers.iter().any(|source| source.label.is_some()),
            labels: node.labels().clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str, labels: Value, spec: Value) -> Arc<SeiNode> {
        let mut full_spec = json!({ "chainId": "c", "image": "i" });
        for (key, value) in spec.as_object().unwrap() {
            full_spec[key] = value.clone();
        }
        let metadata = json!({ "name": name, "namespace": "sei", "labels": labels });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata, "spec": full_spec })).unwrap())
    }

    fn key(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn node_is_found_by_its_references_until_they_change() {
        let index = ReferenceIndex::default();
        let full = json!({ "fullNode": {} });
        index.update(&Change::Listed(node("plain", json!({}), full.clone())));
        assert!(lock(&index.0).is_empty(), "a node without references has no entry");

        let secret = |name: &str| json!({ "secret": { "secretName": name } });
        let validator = json!({ "validator": { "signingKey": secret("key"), "nodeKey": secret("id") } });
        index.update(&Change::Listed(node("signer", json!({}), validator)));
        let tls = json!({ "fullNode": {}, "sidecar": { "tls": { "issuerName": "ca" } } });
        index.update(&Change::Listed(node("tls", json!({}), tls)));
        for (secret, found) in [("key", "signer"), ("id", "signer"), ("tls-sidecar-tls", "tls")] {
            assert_eq!(index.nodes_using_secret(&key("sei", secret)), [key("sei", found)], "{secret}");
        }
        assert!(index.nodes_using_secret(&key("other", "key")).is_empty());

        let import = json!({ "fullNode": {}, "dataVolume": { "import": { "pvcName": "old" } } });
        index.update(&Change::Listed(node("importer", json!({}), import)));
        assert_eq!(index.nodes_importing_claim(&key("sei", "old")), [key("sei", "importer")]);
        for (name, spec, found) in [
            (
                "old-owner",
                json!({ "fullNode": {}, "dataVolume": { "import": { "pvcName": "old" } } }),
                "importer",
            ),
            (
                "second",
                json!({ "validator": { "signingKey": secret("key"), "nodeKey": secret("other") } }),
                "signer",
            ),
        ] {
            assert_eq!(index.nodes_sharing_with(&node(name, json!({}), spec)), [key("sei", found)], "{name}");
        }
        let of_own_claim = json!({ "fullNode": {}, "dataVolume": { "import": { "pvcName": "data-plain" } } });
        index.update(&Change::Listed(node("reader", json!({}), of_own_claim)));
        assert_eq!(index.nodes_sharing_with(&node("plain", json!({}), full.clone())), [key("sei", "reader")]);
        index.update(&Change::Applied(node("importer", json!({}), full.clone()), None));
        assert!(index.nodes_importing_claim(&key("sei", "old")).is_empty());

        let peers = json!({ "fullNode": {}, "peers": [{ "label": { "selector": { "chain": "c" } } }] });
        let selecting = node("selector", json!({ "chain": "c" }), peers);
        index.update(&Change::Listed(selecting.clone()));
        assert_eq!(index.nodes_selecting_peers(), [key("sei", "selector")]);
        let chain = BTreeMap::from([("chain".to_owned(), "c".to_owned())]);
        assert_eq!(index.nodes_with_labels("sei", &chain), [key("sei", "selector")]);
        index.update(&Change::Deleted(selecting));
        assert!(
            index.nodes_with_labels("sei", &chain).is_empty() && index.nodes_selecting_peers().is_empty()
        );
    }
}
