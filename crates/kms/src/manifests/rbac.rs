//! RBAC of reporters and aggregators.

use api::names::lease::KMS_AGGREGATOR as LEASE;
use api::rbac::{
    cluster_role, cluster_role_binding, lease_rules, role, role_binding, service_account,
    service_account_subject,
};
use serde_json::{Value, json};

use super::policy::{GROUP, SERVICE_ACCOUNT};

/// Namespace of the aggregator and of preflight controllers.
pub(super) const NAMESPACE: &str = "outrigger-kms";

/// Name of the aggregator's service account and roles.
const AGGREGATOR: &str = "outrigger-kms-aggregator";

/// Namespace of OpenShift's kube-apiserver, whose operator lists the nodes of its static pods.
pub(super) const STATIC_PODS: &str = "openshift-kube-apiserver";

/// Namespaces of OpenShift's API servers that run as Deployments.
pub(super) const DEPLOYMENTS: [&str; 2] = ["openshift-apiserver", "openshift-oauth-apiserver"];

/// Namespaces in which a reporter's service account is bound: those of OpenShift's Deployments, and kube-system on other clusters.
const REPORTER_NAMESPACES: [&str; 3] = ["openshift-apiserver", "openshift-oauth-apiserver", "kube-system"];

/// OpenShift resources that hold reports.
pub(super) const KINDS: [&str; 3] = ["kubeapiservers", "openshiftapiservers", "authentications"];

/// Returns a Role of the aggregator in a namespace, and its RoleBinding.
fn aggregator_role(namespace: &str, rules: &Value) -> [Value; 2] {
    [role(AGGREGATOR, namespace, rules), role_binding(AGGREGATOR, namespace, &aggregator_account())]
}

/// Returns the `outrigger-kms` namespace and a service account in it.
pub(super) fn namespace_and_account(name: &str) -> [Value; 2] {
    [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        service_account(name, NAMESPACE),
    ]
}

fn aggregator_account() -> Value {
    service_account_subject(AGGREGATOR, NAMESPACE)
}

pub(super) fn statuses() -> Vec<String> {
    KINDS.iter().map(|kind| format!("{kind}/status")).collect()
}

/// A reporter reads the object that holds its reports, and patches its status.
pub(super) fn reporter() -> Vec<Value> {
    let rules = json!([
        { "apiGroups": ["operator.openshift.io"], "resources": KINDS, "resourceNames": ["cluster"], "verbs": ["get"] },
        { "apiGroups": ["operator.openshift.io"], "resources": statuses(), "resourceNames": ["cluster"], "verbs": ["patch"] },
        { "apiGroups": ["outrigger.dev"], "resources": ["kmshealths"], "resourceNames": ["cluster"], "verbs": ["get"] },
        { "apiGroups": ["outrigger.dev"], "resources": ["kmshealths/status"], "resourceNames": ["cluster"], "verbs": ["patch"] },
    ]);
    let mut subjects =
        vec![json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP })];
    subjects.extend(
        REPORTER_NAMESPACES.iter().map(|namespace| service_account_subject(SERVICE_ACCOUNT, namespace)),
    );
    vec![cluster_role(SERVICE_ACCOUNT, &rules), cluster_role_binding(SERVICE_ACCOUNT, &json!(subjects))]
}

/// Permissions of every aggregator: KMSHealth, its Lease, events.
pub(super) fn aggregator() -> Vec<Value> {
    let cluster_rules = json!([
        { "apiGroups": ["outrigger.dev"], "resources": ["kmshealths"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["outrigger.dev"], "resources": ["kmshealths/status"], "verbs": ["patch"] },
    ]);
    let events = json!([{ "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"] }]);
    let mut documents = namespace_and_account(AGGREGATOR).to_vec();
    documents.extend([
        cluster_role(AGGREGATOR, &cluster_rules),
        cluster_role_binding(AGGREGATOR, &json!([aggregator_account()])),
    ]);
    documents.extend(aggregator_role(NAMESPACE, &json!(lease_rules(LEASE))));
    // Events about cluster-scoped objects go to the default namespace.
    documents.extend(aggregator_role("default", &events));
    documents
}

/// Additional permissions for OpenShift's kinds: the objects, the pods of their API servers, and the encryption configuration, which is
/// read by name. The last roles are needed only with `--cluster-operator`.
pub(super) fn aggregator_on_openshift() -> Vec<Value> {
    let name = format!("{AGGREGATOR}-openshift");
    let kinds = json!([
        { "apiGroups": ["operator.openshift.io"], "resources": KINDS, "resourceNames": ["cluster"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["operator.openshift.io"], "resources": statuses(), "resourceNames": ["cluster"], "verbs": ["patch"] },
    ]);
    let configuration = json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] });
    let pods = json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"] });
    let operator_role = format!("{AGGREGATOR}-cluster-operator");
    let operators = ["kube-apiserver", "openshift-apiserver", "authentication"];
    let operator_rules = json!([
        { "apiGroups": ["config.openshift.io"], "resources": ["clusteroperators"], "verbs": ["create"] },
        { "apiGroups": ["config.openshift.io"], "resources": ["clusteroperators"], "resourceNames": operators, "verbs": ["get", "list", "watch", "delete"] },
        { "apiGroups": ["config.openshift.io"], "resources": ["clusteroperators/status"], "resourceNames": operators, "verbs": ["patch"] },
    ]);
    let subjects = json!([aggregator_account()]);
    let mut documents = vec![cluster_role(&name, &kinds), cluster_role_binding(&name, &subjects)];
    documents.extend(aggregator_role(STATIC_PODS, &json!([configuration])));
    for namespace in DEPLOYMENTS {
        documents.extend(aggregator_role(namespace, &json!([configuration, pods])));
    }
    documents.extend([
        cluster_role(&operator_role, &operator_rules),
        cluster_role_binding(&operator_role, &subjects),
    ]);
    // One Lease per ClusterOperator. The Role for the Lease above already allows create.
    let leases = operators.map(|operator| format!("{LEASE}-{operator}"));
    let lease_rules = json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": leases, "verbs": ["get", "update"] });
    documents.extend([
        role(&operator_role, NAMESPACE, &json!([lease_rules])),
        role_binding(&operator_role, NAMESPACE, &aggregator_account()),
    ]);
    documents
}
