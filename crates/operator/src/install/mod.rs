//! Install manifests: the kustomize base in `deploy`, generated from this module.

mod deployment;
mod rbac;

use serde_json::{Value, json};

pub use rbac::{ACCOUNT, NAMESPACE};

/// Returns the generated files of `deploy`, each with its documents.
#[must_use]
pub fn files() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("operator/namespace.yaml", deployment::namespace()),
        ("operator/rbac.yaml", rbac::operator()),
        ("operator/deployment.yaml", deployment::deployment()),
        ("operator/network-policy.yaml", deployment::network_policy()),
        ("kustomization.yaml", vec![kustomization()]),
        ("operator/node-namespace/rbac.yaml", rbac::node_namespace()),
        ("operator/node-namespace/kustomization.yaml", vec![kustomization_with(&["rbac.yaml"])]),
    ]
}

fn kustomization_with(resources: &[&str]) -> Value {
    json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources })
}

/// The settings are generated from `operator/settings.env`. An overlay adds to them with `behavior: merge`.
fn kustomization() -> Value {
    let mut base = kustomization_with(&[
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
    use testbed::harness::rbac::{granted, overbroad};

    use super::*;

    #[test]
    fn generated_manifests_are_up_to_date() -> testbed::Result<()> {
        files().iter().try_for_each(|(name, documents)| {
            testbed::harness::generated::check_yaml(&format!("deploy/{name}"), documents)
        })
    }

    #[test]
    fn rbac_has_no_wildcards_and_never_writes_secrets() {
        let documents: Vec<Value> = files().into_iter().flat_map(|(_, documents)| documents).collect();
        assert_eq!(overbroad(&documents), Vec::<String>::new());
        for permission in granted(&documents).iter().filter(|permission| permission.resource == "secrets") {
            assert!(matches!(permission.verb.as_str(), "get" | "list" | "watch"), "{permission}");
        }
    }
}
