//! RBAC of the operator and of node pods, with least privilege.

use api::names::group::TASK_RESOURCE;
use api::names::lease::OPERATOR as LEASE;
use api::rbac::{
    cluster_role, cluster_role_binding, lease_rules, role, role_binding, service_account,
    service_account_subject,
};
use plan::node::SUBMITTED_TASKS;
use serde_json::{Value, json};

/// The namespace of the operator.
pub const NAMESPACE: &str = "outrigger-system";

/// The ServiceAccount of the operator. Its roles and its Deployment have the same name.
pub const ACCOUNT: &str = "outrigger-operator";

/// The Role with which the operator reads Secrets.
const SECRETS_ROLE: &str = "outrigger-operator-secrets";

/// The ServiceAccount of node pods, as in the example settings.
const NODE_ACCOUNT: &str = "seid-node";

pub(super) fn operator() -> Vec<Value> {
    let mut rules = node_rules();
    // Volumes are cluster-scoped.
    rules.push(json!({ "apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get"] }));
    vec![
        service_account(ACCOUNT, NAMESPACE),
        cluster_role(ACCOUNT, &json!(rules)),
        cluster_role_binding(ACCOUNT, &json!([subject()])),
        role(ACCOUNT, NAMESPACE, &json!(own_namespace_rules())),
        role_binding(ACCOUNT, NAMESPACE, &subject()),
    ]
}

fn subject() -> Value {
    service_account_subject(ACCOUNT, NAMESPACE)
}

/// What the operator needs in its own namespace: the Lease, and tokens of its own ServiceAccount for sidecars.
fn own_namespace_rules() -> Vec<Value> {
    let mut rules = lease_rules(LEASE).to_vec();
    rules.push(json!({
        "apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [ACCOUNT], "verbs": ["create"],
    }));
    rules
}

/// The virtual resources that proxies authorize callers for: all tasks of a node, and those of each type that plans contain.
fn task_resources() -> Vec<String> {
    let by_type = SUBMITTED_TASKS.iter().map(|task| format!("{TASK_RESOURCE}/{task}"));
    std::iter::once(TASK_RESOURCE.to_owned()).chain(by_type).collect()
}

/// What the operator needs wherever nodes are. Every kind is watched; `get` is used when a watch has not delivered the operator's own
/// write for too long.
fn node_rules() -> Vec<Value> {
    vec![
        json!({ "apiGroups": ["sei.io"], "resources": ["seinodes"], "verbs": ["get", "list", "watch"] }),
        // Fleets create, update and delete nodes.
        json!({ "apiGroups": ["sei.io"], "resources": ["seinodes"], "verbs": ["create", "patch", "delete"] }),
        // Only the finalizer of the upstream controller is patched.
        json!({ "apiGroups": ["sei.io"], "resources": ["seinodedeployments"], "verbs": ["get", "list", "watch", "patch"] }),
        json!({ "apiGroups": ["sei.io"], "resources": ["seinodedeployments/status"], "verbs": ["patch"] }),
        json!({ "apiGroups": ["sei.io"], "resources": ["seinodedeployments/finalizers"], "verbs": ["update"] }),
        json!({ "apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["get", "list", "watch", "create", "patch", "delete"] }),
        json!({ "apiGroups": ["sei.io"], "resources": ["seinodes/status"], "verbs": ["patch"] }),
        // Required by the OwnerReferencesPermissionEnforcement admission plugin.
        json!({ "apiGroups": ["sei.io"], "resources": ["seinodes/finalizers"], "verbs": ["update"] }),
        json!({ "apiGroups": ["sei.io"], "resources": task_resources(), "verbs": ["create"] }),
        json!({ "apiGroups": ["sei.io"], "resources": [TASK_RESOURCE], "verbs": ["get"] }),
        json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"] }),
        json!({ "apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch", "create", "patch", "delete"] }),
        json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"] }),
        // Patched when they are retained, or no longer, and when they are resized: never deleted.
        json!({ "apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list", "watch", "create", "patch"] }),
        json!({ "apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get", "list", "watch", "create", "patch"] }),
        json!({ "apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "create", "delete"] }),
        json!({ "apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["get", "list", "watch", "create", "patch"] }),
        json!({ "apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["get", "list", "watch", "create", "patch"] }),
        json!({ "apiGroups": ["cert-manager.io"], "resources": ["certificates"], "verbs": ["get", "list", "watch", "create", "patch", "delete"] }),
        json!({ "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"] }),
    ]
}

/// Returns what a namespace of nodes needs: the ServiceAccount of the pods, whose proxies create TokenReviews and
/// SubjectAccessReviews, and the permission of the operator to read the Secrets that nodes reference, by name.
#[must_use]
pub fn node_namespace(namespace: &str) -> Vec<Value> {
    // A Secret that cert-manager issued for a node gets its Certificate as its owner, so that garbage collection deletes it: only its
    // metadata is patched.
    let secrets = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "patch"] }]);
    vec![
        service_account(NODE_ACCOUNT, namespace),
        role(SECRETS_ROLE, namespace, &secrets),
        role_binding(SECRETS_ROLE, namespace, &subject()),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": format!("outrigger:node-proxy:{namespace}") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator" },
            "subjects": [service_account_subject(NODE_ACCOUNT, namespace)],
        }),
    ]
}

/// Returns what a namespace of nodes needs in an installation with namespaced permissions only: the same permissions as elsewhere, without
/// those for cluster-scoped kinds.
#[must_use]
pub fn watched_namespace(namespace: &str) -> Vec<Value> {
    vec![role(ACCOUNT, namespace, &json!(node_rules())), role_binding(ACCOUNT, namespace, &subject())]
}
