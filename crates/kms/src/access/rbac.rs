//! Roles and who has them.

use api::names::lease::KMS_AGGREGATOR as LEASE;
use api::rbac::{account, binding, cluster_binding, cluster_role, lease, role, service_account};
use serde_json::{Value, json};

use super::policy::{GROUP, SERVICE_ACCOUNT};

/// Where the aggregator and the preflight controllers run.
pub(super) const NAMESPACE: &str = "outrigger-kms";

/// The aggregator's service account, and what its roles are called.
const AGGREGATOR: &str = "outrigger-kms-aggregator";

/// The namespace of OpenShift's kube-apiserver, whose operator tells where its static pods run.
pub(super) const STATIC_PODS: &str = "openshift-kube-apiserver";

/// Namespaces of OpenShift's API servers that are Deployments.
pub(super) const DEPLOYMENTS: [&str; 2] = ["openshift-apiserver", "openshift-oauth-apiserver"];

/// Where a reporter's service account may be: with the API servers that have one, and with those of other clusters.
const REPORTERS_IN: [&str; 3] = ["openshift-apiserver", "openshift-oauth-apiserver", "kube-system"];

/// OpenShift's kinds that reports stand on.
pub(super) const KINDS: [&str; 3] = ["kubeapiservers", "openshiftapiservers", "authentications"];

/// A role of the aggregator in a namespace, and that it has it.
fn aggregator_in(namespace: &str, rules: &Value) -> [Value; 2] {
    [role(AGGREGATOR, namespace, rules), binding(AGGREGATOR, namespace, &aggregator_account())]
}

/// The namespace of our own, and a service account in it.
pub(super) fn home(name: &str) -> [Value; 2] {
    [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        service_account(name, NAMESPACE),
    ]
}

fn aggregator_account() -> Value {
    account(AGGREGATOR, NAMESPACE)
}

pub(super) fn statuses() -> Vec<String> {
    KINDS.iter().map(|kind| format!("{kind}/status")).collect()
}

/// A reporter reads the one object it reports on, and changes its status.
pub(super) fn reporter() -> Vec<Value> {
    let rules = json!([
        { "apiGroups": ["operator.openshift.io"], "resources": KINDS, "resourceNames": ["cluster"], "verbs": ["get"] },
        { "apiGroups": ["operator.openshift.io"], "resources": statuses(), "resourceNames": ["cluster"], "verbs": ["patch"] },
        { "apiGroups": ["outrigger.dev"], "resources": ["kmshealths"], "resourceNames": ["cluster"], "verbs": ["get"] },
        { "apiGroups": ["outrigger.dev"], "resources": ["kmshealths/status"], "resourceNames": ["cluster"], "verbs": ["patch"] },
    ]);
    let mut subjects =
        vec![json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP })];
    subjects.extend(REPORTERS_IN.iter().map(|namespace| account(SERVICE_ACCOUNT, namespace)));
    vec![cluster_role(SERVICE_ACCOUNT, &rules), cluster_binding(SERVICE_ACCOUNT, &json!(subjects))]
}

/// What an aggregator needs everywhere: our own kind, its Lease, events.
pub(super) fn aggregator() -> Vec<Value> {
    let everywhere = json!([
        { "apiGroups": ["outrigger.dev"], "resources": ["kmshealths"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["outrigger.dev"], "resources": ["kmshealths/status"], "verbs": ["patch"] },
    ]);
    let events = json!([{ "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"] }]);
    let mut documents = home(AGGREGATOR).to_vec();
    documents.extend([
        cluster_role(AGGREGATOR, &everywhere),
        cluster_binding(AGGREGATOR, &json!([aggregator_account()])),
    ]);
    documents.extend(aggregator_in(NAMESPACE, &json!(lease(LEASE))));
    // Events about objects of the whole cluster are there.
    documents.extend(aggregator_in("default", &events));
    documents
}

/// What it needs besides for OpenShift's kinds: the objects, their API servers' pods, and the configuration that these run, which
/// is read by name. The last roles are for `--cluster-operator` only.
pub(super) fn aggregator_on_openshift() -> Vec<Value> {
    let name = format!("{AGGREGATOR}-openshift");
    let kinds = json!([
        { "apiGroups": ["operator.openshift.io"], "resources": KINDS, "resourceNames": ["cluster"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["operator.openshift.io"], "resources": statuses(), "resourceNames": ["cluster"], "verbs": ["patch"] },
    ]);
    let configuration = json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] });
    let pods = json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"] });
    let shown = format!("{AGGREGATOR}-cluster-operator");
    let operators = ["kube-apiserver", "openshift-apiserver", "authentication"];
    let show = json!([
        { "apiGroups": ["config.openshift.io"], "resources": ["clusteroperators"], "verbs": ["create"] },
        { "apiGroups": ["config.openshift.io"], "resources": ["clusteroperators"], "resourceNames": operators, "verbs": ["get", "list", "watch", "delete"] },
        { "apiGroups": ["config.openshift.io"], "resources": ["clusteroperators/status"], "resourceNames": operators, "verbs": ["patch"] },
    ]);
    let us = json!([aggregator_account()]);
    let mut documents = vec![cluster_role(&name, &kinds), cluster_binding(&name, &us)];
    documents.extend(aggregator_in(STATIC_PODS, &json!([configuration])));
    for namespace in DEPLOYMENTS {
        documents.extend(aggregator_in(namespace, &json!([configuration, pods])));
    }
    documents.extend([cluster_role(&shown, &show), cluster_binding(&shown, &us)]);
    // Each has a Lease of its own; to create one is allowed already.
    let leases = operators.map(|operator| format!("{LEASE}-{operator}"));
    let hold = json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": leases, "verbs": ["get", "update"] });
    documents
        .extend([role(&shown, NAMESPACE, &json!([hold])), binding(&shown, NAMESPACE, &aggregator_account())]);
    documents
}
