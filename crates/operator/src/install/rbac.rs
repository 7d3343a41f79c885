//! What the operator and the pods of its nodes may do: the least that they need.

use api::names::lease::OPERATOR as LEASE;
use api::rbac::{account, binding, cluster_binding, cluster_role, lease, role, service_account};
use serde_json::{Value, json};

/// Where the operator runs.
pub const NAMESPACE: &str = "outrigger-system";

/// Its service account, and what its roles are called.
pub const ACCOUNT: &str = "outrigger-operator";

/// The service account of node pods, as the example of the settings names it.
const NODE_ACCOUNT: &str = "seid-node";

pub(super) fn operator() -> Vec<Value> {
    let us = account(ACCOUNT, NAMESPACE);
    vec![
        service_account(ACCOUNT, NAMESPACE),
        cluster_role(ACCOUNT, &everywhere()),
        cluster_binding(ACCOUNT, &json!([us])),
        role(ACCOUNT, NAMESPACE, &json!(lease(LEASE))),
        binding(ACCOUNT, NAMESPACE, &us),
    ]
}

/// Every kind is watched. A `get` is for a watch that is behind our own writes for too long.
fn everywhere() -> Value {
    json!([
        { "apiGroups": ["sei.io"], "resources": ["seinodes"], "verbs": ["get", "list", "watch"] },
        // Nodes of the operator before us have a finalizer that nobody else would remove.
        { "apiGroups": ["sei.io"], "resources": ["seinodes"], "verbs": ["patch"] },
        { "apiGroups": ["sei.io"], "resources": ["seinodes/status"], "verbs": ["patch"] },
        // An API server that checks who may block a deletion asks for this.
        { "apiGroups": ["sei.io"], "resources": ["seinodes/finalizers"], "verbs": ["update"] },
        // No objects: what the proxies before sidecars ask whether a caller may.
        { "apiGroups": ["sei.io"], "resources": ["seinodetasks"], "verbs": ["create", "get"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"] },
        { "apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch", "create", "patch", "delete"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"] },
        { "apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list", "watch", "create"] },
        { "apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get"] },
        // Metadata is watched, and one that a node names is read.
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get", "list", "watch", "create", "patch"] },
        { "apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "create", "delete"] },
        { "apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["get", "list", "watch", "create", "patch"] },
        { "apiGroups": ["cert-manager.io"], "resources": ["certificates"], "verbs": ["get", "list", "watch", "create", "patch", "delete"] },
        { "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"] },
    ])
}

/// A proxy asks the API server who its caller is, and what he may.
pub(super) fn nodes() -> Vec<Value> {
    let namespace = "default";
    vec![
        service_account(NODE_ACCOUNT, namespace),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "outrigger:node-proxy:default" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator" },
            "subjects": [account(NODE_ACCOUNT, namespace)],
        }),
    ]
}
