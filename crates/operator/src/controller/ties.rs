//! What nodes have to do with objects that are not their own. It is asked for every Secret and every claim of the cluster that
//! changes: nodes themselves are not looked through for it, of which there are thousands, at rest.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::SeiNode;
use kube::ResourceExt;
use runtime::Key;
use runtime::watch::Change;

/// What each node has to do with others.
#[derive(Debug, Default)]
pub(super) struct Ties(Mutex<HashMap<Key, Tie>>);

/// What a node has to do with others. Most have nothing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tie {
    /// Secrets that it was told about.
    secrets: Vec<String>,
    /// The claim that it was given instead of one of its own.
    imported: Option<String>,
    /// Whether its peers are nodes with certain labels.
    looks_for_peers: bool,
    /// By which it is found as a peer.
    labels: BTreeMap<String, String>,
}

impl Ties {
    /// A node was seen.
    pub(super) fn changed(&self, change: &Change<SeiNode>) {
        let node = change.object();
        let tie = if matches!(change, Change::Gone(_)) { Tie::default() } else { Tie::of(node) };
        if tie == Tie::default() {
            self.lock().remove(&Key::of(&**node));
        } else {
            self.lock().insert(Key::of(&**node), tie);
        }
    }

    /// Nodes that were told about a Secret.
    pub(super) fn of_secret(&self, secret: &Key) -> Vec<Key> {
        self.of(|node, tie| node.namespace == secret.namespace && tie.secrets.contains(&secret.name))
    }

    /// Nodes that were given a claim.
    pub(super) fn of_claim(&self, claim: &Key) -> Vec<Key> {
        self.of(|node, tie| node.namespace == claim.namespace && tie.imported.as_deref() == Some(&claim.name))
    }

    /// Nodes whose peers are nodes with certain labels.
    pub(super) fn who_look_for_peers(&self) -> Vec<Key> {
        self.of(|_, tie| tie.looks_for_peers)
    }

    /// Nodes of a namespace that have certain labels.
    pub(super) fn labelled(&self, namespace: &str, selector: &BTreeMap<String, String>) -> Vec<Key> {
        self.of(|node, tie| {
            node.namespace == namespace
                && selector.iter().all(|(name, value)| tie.labels.get(name) == Some(value))
        })
    }

    fn of(&self, concerns: impl Fn(&Key, &Tie) -> bool) -> Vec<Key> {
        let ties = self.lock();
        ties.iter().filter(|(node, tie)| concerns(node, tie)).map(|(node, _)| node.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Tie>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tie {
    fn of(node: &SeiNode) -> Self {
        let keys = plan::node::Kind::of(&node.spec).map(plan::node::Kind::keys).unwrap_or_default();
        let ring = keys.operator_keyring.as_ref();
        let secrets = [
            ring.map(|ring| ring.secret_name.clone()),
            ring.map(|ring| ring.passphrase_secret_ref.secret_name.clone()),
            keys.signing_key.clone(),
            keys.node_key.clone(),
            plan::node::tls(node).secret_name,
        ];
        let import = node.spec.data_volume.as_ref().and_then(|volume| volume.import.as_ref());
        Self {
            secrets: secrets.into_iter().flatten().collect(),
            imported: import.map(|import| import.pvc_name.clone()),
            looks_for_peers: node.spec.peers.iter().any(|source| source.label.is_some()),
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
        let mut whole = json!({ "chainId": "c", "image": "i" });
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let metadata = json!({ "name": name, "namespace": "sei", "labels": labels });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata, "spec": whole })).unwrap())
    }

    fn key(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn a_node_is_found_by_what_it_names_until_it_names_something_else() {
        let ties = Ties::default();
        let full = json!({ "fullNode": {} });
        ties.changed(&Change::Listed(node("plain", json!({}), full.clone())));
        assert!(ties.lock().is_empty(), "most nodes take no room");

        let secret = |name: &str| json!({ "secret": { "secretName": name } });
        let validator = json!({ "validator": { "signingKey": secret("key"), "nodeKey": secret("id") } });
        ties.changed(&Change::Listed(node("signer", json!({}), validator)));
        let tls = json!({ "fullNode": {}, "sidecar": { "tls": { "issuerName": "ca" } } });
        ties.changed(&Change::Listed(node("tls", json!({}), tls)));
        for (secret, found) in [("key", "signer"), ("id", "signer"), ("tls-sidecar-tls", "tls")] {
            assert_eq!(ties.of_secret(&key("sei", secret)), [key("sei", found)], "{secret}");
        }
        assert!(ties.of_secret(&key("elsewhere", "key")).is_empty());

        let import = json!({ "fullNode": {}, "dataVolume": { "import": { "pvcName": "old" } } });
        ties.changed(&Change::Listed(node("heir", json!({}), import)));
        assert_eq!(ties.of_claim(&key("sei", "old")), [key("sei", "heir")]);
        ties.changed(&Change::Changed(node("heir", json!({}), full.clone()), None));
        assert!(ties.of_claim(&key("sei", "old")).is_empty());

        let peers = json!({ "fullNode": {}, "peers": [{ "label": { "selector": { "chain": "c" } } }] });
        let seeker = node("seeker", json!({ "chain": "c" }), peers);
        ties.changed(&Change::Listed(seeker.clone()));
        assert_eq!(ties.who_look_for_peers(), [key("sei", "seeker")]);
        let chain = BTreeMap::from([("chain".to_owned(), "c".to_owned())]);
        assert_eq!(ties.labelled("sei", &chain), [key("sei", "seeker")]);
        ties.changed(&Change::Gone(seeker));
        assert!(ties.labelled("sei", &chain).is_empty() && ties.who_look_for_peers().is_empty());
    }
}
