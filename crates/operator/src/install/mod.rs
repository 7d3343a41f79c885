//! What is installed with the operator: a kustomize base, written to `deploy` from here.

mod deployment;
mod rbac;

use serde_json::{Value, json};

pub use rbac::{ACCOUNT, NAMESPACE};

/// Each file of `deploy`, and its documents.
#[must_use]
pub fn files() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("operator/namespace.yaml", deployment::namespace()),
        ("operator/rbac.yaml", rbac::operator()),
        ("operator/deployment.yaml", deployment::deployment()),
        ("operator/network-policy.yaml", deployment::network_policy()),
        ("kustomization.yaml", vec![kustomization()]),
        ("operator/node-namespace/rbac.yaml", rbac::nodes()),
        ("operator/node-namespace/kustomization.yaml", vec![kustomization_of(&["rbac.yaml"])]),
    ]
}

fn kustomization_of(resources: &[&str]) -> Value {
    json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources })
}

/// The settings are in a file of their own, which an overlay completes with `behavior: merge`.
fn kustomization() -> Value {
    let mut base = kustomization_of(&[
        "crds/sei.io_seinodes.yaml",
        "crds/sei.io_seinodedeployments.yaml",
        "operator/namespace.yaml",
        "operator/rbac.yaml",
        "operator/deployment.yaml",
        "operator/network-policy.yaml",
    ]);
    base["configMapGenerator"] =
        json!([{ "name": deployment::SETTINGS, "namespace": NAMESPACE, "envs": ["operator/settings.env"] }]);
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_in_deploy_are_what_the_code_says() -> testbed::Result<()> {
        for (name, documents) in files() {
            let yaml = |document: &Value| format!("---\n{}", serde_saphyr::to_string(document).unwrap());
            let text: String = documents.iter().map(yaml).collect();
            testbed::generated::check(&format!("deploy/{name}"), &text)?;
        }
        Ok(())
    }

    #[test]
    fn no_rule_has_a_wildcard_or_changes_secrets() {
        for (_, documents) in files() {
            for rule in documents.iter().filter_map(|one| one["rules"].as_array()).flatten() {
                let has = |name: &str, text: &str| {
                    rule[name].as_array().is_some_and(|all| all.iter().any(|one| one == text))
                };
                assert!(!has("verbs", "*") && !has("resources", "*") && !has("apiGroups", "*"), "{rule}");
                assert!(!has("verbs", "escalate") && !has("verbs", "bind"), "{rule}");
                let changes = ["create", "update", "patch", "delete"].iter().any(|verb| has("verbs", verb));
                assert!(!has("resources", "secrets") || !changes, "{rule}");
            }
        }
    }
}
