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
    use testbed::harness::rights::{boundless, granted};

    use super::*;

    #[test]
    fn the_files_in_deploy_are_what_the_code_says() -> testbed::Result<()> {
        files().iter().try_for_each(|(name, documents)| {
            testbed::harness::generated::check_documents(&format!("deploy/{name}"), documents)
        })
    }

    #[test]
    fn no_rule_has_a_wildcard_or_changes_secrets() {
        let documents: Vec<Value> = files().into_iter().flat_map(|(_, documents)| documents).collect();
        assert_eq!(boundless(&documents), Vec::<String>::new());
        for right in granted(&documents).iter().filter(|right| right.resource == "secrets") {
            assert!(matches!(right.verb.as_str(), "get" | "list" | "watch"), "{right}");
        }
    }
}
