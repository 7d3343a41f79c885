//! RBAC of the preflight controller.

use api::names::kms::encryption_config::CONFIG;
use api::names::kms::preflight as names;
use api::names::lease::KMS_PREFLIGHT as LEASE;
use api::rbac::{
    cluster_role, cluster_role_binding, lease_rules, role, role_binding, service_account_subject,
};
use serde_json::{Value, json};

use super::rbac::{DEPLOYMENTS, KINDS, NAMESPACE, STATIC_PODS, namespace_and_account, statuses};

/// Name of the controller's service account and roles.
const CONTROLLER: &str = "outrigger-kms-preflight";

/// Namespace of the credentials and CA bundles that a configuration refers to.
const CONFIG_NAMESPACE: &str = "openshift-config";

/// The controller reads requests and the configuration, runs check pods in the namespaces of API servers, and writes results.
pub(super) fn controller() -> Vec<Value> {
    let cluster_rules = json!([
        { "apiGroups": ["operator.openshift.io"], "resources": KINDS, "resourceNames": ["cluster"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["operator.openshift.io"], "resources": statuses(), "resourceNames": ["cluster"], "verbs": ["patch"] },
        { "apiGroups": ["config.openshift.io"], "resources": ["apiservers"], "resourceNames": ["cluster"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [""], "resources": ["nodes"], "verbs": ["list"] },
    ]);
    let config_rules =
        json!([{ "apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get"] }]);
    let subject = service_account_subject(CONTROLLER, NAMESPACE);
    let mut documents = namespace_and_account(CONTROLLER).to_vec();
    documents.extend([
        cluster_role(CONTROLLER, &cluster_rules),
        cluster_role_binding(CONTROLLER, &json!([subject])),
    ]);
    let operands = [STATIC_PODS].into_iter().chain(DEPLOYMENTS).map(|namespace| (namespace, operand_rules()));
    for (namespace, rules) in operands.chain([(CONFIG_NAMESPACE, config_rules)]) {
        documents
            .extend([role(CONTROLLER, namespace, &rules), role_binding(CONTROLLER, namespace, &subject)]);
    }
    documents
}

/// Rules in the namespaces of API servers. RBAC allows granting only permissions that the grantor has: those of the checker are included.
fn operand_rules() -> Value {
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
    rules.extend(lease_rules(LEASE));
    json!(rules)
}
