//! Builders of RBAC manifests.

use serde_json::{Value, json};

const VERSION: &str = "rbac.authorization.k8s.io/v1";

const GROUP: &str = "rbac.authorization.k8s.io";

/// Returns a ClusterRole.
#[must_use]
pub fn cluster_role(name: &str, rules: &Value) -> Value {
    json!({ "apiVersion": VERSION, "kind": "ClusterRole", "metadata": { "name": name }, "rules": rules })
}

/// Returns a ClusterRoleBinding to the ClusterRole of the same name.
#[must_use]
pub fn cluster_role_binding(name: &str, subjects: &Value) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "ClusterRoleBinding", "metadata": { "name": name },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": name },
        "subjects": subjects,
    })
}

/// Returns a Role.
#[must_use]
pub fn role(name: &str, namespace: &str, rules: &Value) -> Value {
    let metadata = json!({ "name": name, "namespace": namespace });
    json!({ "apiVersion": VERSION, "kind": "Role", "metadata": metadata, "rules": rules })
}

/// Returns a RoleBinding to the Role of the same name.
#[must_use]
pub fn role_binding(name: &str, namespace: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "RoleBinding", "metadata": { "name": name, "namespace": namespace },
        "roleRef": { "apiGroup": GROUP, "kind": "Role", "name": name },
        "subjects": [subject],
    })
}

/// Returns a ServiceAccount as a subject of a binding.
#[must_use]
pub fn service_account_subject(name: &str, namespace: &str) -> Value {
    json!({ "kind": "ServiceAccount", "name": name, "namespace": namespace })
}

/// Returns a ServiceAccount.
#[must_use]
pub fn service_account(name: &str, namespace: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": namespace } })
}

/// Returns the rules that leader election with this Lease requires.
#[must_use]
pub fn lease_rules(name: &str) -> [Value; 2] {
    [
        json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"] }),
        json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [name], "verbs": ["get", "update"] }),
    ]
}
