//! RBAC of the operator and of node pods, with least privilege.

use api::names::lease::OPERATOR as LEASE;
use api::rbac::{
    cluster_role, cluster_role_binding, lease_rules, role, role_binding, service_account,
    service_account_subject,
};
use serde_json::{Value, json};

/// The namespace of the operator.
pub const NAMESPACE: &str = "outrigger-system";

/// The ServiceAccount of the operator. Its roles and its Deployment have the same name.
pub const ACCOUNT: &str = "outrigger-operator";

/// The ServiceAccount of node pods, as in the example settings.
const NODE_ACCOUNT: &str = "seid-node";

pub(super) fn operator() -> Vec<Value> {
    let subject = service_account_subject(ACCOUNT, NAMESPACE);
    vec![
        service_account(ACCOUNT, NAMESPACE),
        cluster_role(ACCOUNT, &cluster_rules()),
        cluster_role_binding(ACCOUNT, &json!([subject])),
        role(ACCOUNT, NAMESPACE, &json!(lease_rules(LEASE))),
        role_binding(ACCOUNT, NAMESPACE, &subject),
    ]
}

/// Every kind is watched. `get` is used when a watch has not delivered the operator's own write for too long.
fn cluster_rules() -> Value {
    json!([
        { "apiGroups": ["sei.io"], "resources": ["seinodes"], "verbs": ["get", "list", "watch"] },
        // Removes the finalizer of the upstream controller from its nodes.
        { "apiGroups": ["sei.io"], "resources": ["seinodes"], "verbs": ["patch"] },
        { "apiGroups": ["sei.io"], "resources": ["seinodes/status"], "verbs": ["patch"] },
        // Required by the OwnerReferencesPermissionEnforcement admission plugin.
        { "apiGroups": ["sei.io"], "resources": ["seinodes/finalizers"], "verbs": ["update"] },
        // A virtual resource: the proxies in front of sidecars authorize callers for it.
        { "apiGroups": ["sei.io"], "resources": ["seinodetasks"], "verbs": ["create", "get"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"] },
        { "apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch", "create", "patch", "delete"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"] },
        // Patched when they are retained, or no longer, and when they are resized: never deleted.
        { "apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list", "watch", "create", "patch"] },
        { "apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get"] },
        // The metadata of all Secrets is watched; the Secrets that nodes reference are read. A Secret that cert-manager issued for a
        // node gets its Certificate as its owner, so that garbage collection deletes it: only its metadata is patched.
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get", "list", "watch", "create", "patch"] },
        { "apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "create", "delete"] },
        { "apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["get", "list", "watch", "create", "patch"] },
        { "apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["get", "list", "watch", "create", "patch"] },
        { "apiGroups": ["cert-manager.io"], "resources": ["certificates"], "verbs": ["get", "list", "watch", "create", "patch", "delete"] },
        { "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"] },
    ])
}

/// Lets the proxies of node pods create TokenReviews and SubjectAccessReviews.
pub(super) fn node_namespace() -> Vec<Value> {
    let namespace = "default";
    vec![
        service_account(NODE_ACCOUNT, namespace),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "outrigger:node-proxy:default" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator" },
            "subjects": [service_account_subject(NODE_ACCOUNT, namespace)],
        }),
    ]
}
