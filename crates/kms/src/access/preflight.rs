//! Rights of the preflight controller.

use api::names::kms::encryption_config::CONFIG;
use api::names::kms::preflight as names;
use api::names::lease::KMS_PREFLIGHT as LEASE;
use api::rbac::{account, binding, cluster_binding, cluster_role, lease, role};
use serde_json::{Value, json};

use super::rbac::{DEPLOYMENTS, KINDS, NAMESPACE, STATIC_PODS, home, statuses};

/// The controller's service account, and what its roles are called.
const CONTROLLER: &str = "outrigger-kms-preflight";

/// Where a configuration's credentials and authorities are.
const CONFIG_NAMESPACE: &str = "openshift-config";

/// It reads what is asked for and configured, has pods check it where the API servers are, and writes what was proved.
pub(super) fn controller() -> Vec<Value> {
    let everywhere = json!([
        { "apiGroups": ["operator.openshift.io"], "resources": KINDS, "resourceNames": ["cluster"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["operator.openshift.io"], "resources": statuses(), "resourceNames": ["cluster"], "verbs": ["patch"] },
        { "apiGroups": ["config.openshift.io"], "resources": ["apiservers"], "resourceNames": ["cluster"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [""], "resources": ["nodes"], "verbs": ["list"] },
    ]);
    let referred = json!([{ "apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get"] }]);
    let us = account(CONTROLLER, NAMESPACE);
    let mut documents = home(CONTROLLER).to_vec();
    documents.extend([cluster_role(CONTROLLER, &everywhere), cluster_binding(CONTROLLER, &json!([us]))]);
    let operands = [STATIC_PODS].into_iter().chain(DEPLOYMENTS).map(|namespace| (namespace, operand()));
    for (namespace, rules) in operands.chain([(CONFIG_NAMESPACE, referred)]) {
        documents.extend([role(CONTROLLER, namespace, &rules), binding(CONTROLLER, namespace, &us)]);
    }
    documents
}

/// What it does where API servers are. Nobody can give rights that he has not: those of the checker are among them.
fn operand() -> Value {
    let mut rules = vec![
        json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "create", "delete"] }),
        json!({ "apiGroups": [""], "resources": ["secrets"], "resourceNames": [CONFIG], "verbs": ["get"] }),
        json!({ "apiGroups": [""], "resources": ["secrets"], "resourceNames": [names::SECRET], "verbs": ["get", "delete"] }),
        json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] }),
        json!({ "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [names::NAME], "verbs": ["create", "patch"] }),
        json!({ "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "resourceNames": [names::NAME], "verbs": ["create", "patch"] }),
        json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }),
        json!({ "apiGroups": [""], "resources": ["pods/status"], "verbs": ["update"] }),
    ];
    rules.extend(lease(LEASE));
    json!(rules)
}
