//! Install manifests: the kustomize bases in `deploy`, generated from this module.

mod allowed_images;
mod deployment;
mod rbac;

use serde_json::{Value, json};

pub use rbac::{ACCOUNT, NAMESPACE, node_namespace, watched_namespace};

/// Returns the generated files of `deploy`, each with its documents.
#[must_use]
pub fn files() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("operator/namespace.yaml", deployment::namespace()),
        ("operator/rbac.yaml", rbac::operator()),
        ("operator/deployment.yaml", deployment::deployment()),
        ("operator/network-policy.yaml", deployment::network_policy()),
        ("kustomization.yaml", vec![kustomization()]),
        ("crds/kustomization.yaml", vec![crds()]),
        ("operator/node-namespace/rbac.yaml", node_namespace(EXAMPLE_NAMESPACE)),
        ("operator/node-namespace/kustomization.yaml", vec![kustomization_with(&["rbac.yaml"])]),
        ("operator/namespaced/kustomization.yaml", vec![namespaced()]),
        ("operator/namespaced/node-namespace/rbac.yaml", watched_namespace(EXAMPLE_NAMESPACE)),
        (
            "operator/namespaced/node-namespace/kustomization.yaml",
            vec![kustomization_with(&["../../node-namespace", "rbac.yaml"])],
        ),
        ("policies/allowed-images/policy.yaml", allowed_images::documents()),
        ("policies/allowed-images/kustomization.yaml", vec![kustomization_with(&["policy.yaml"])]),
    ]
}

/// The namespace in the manifests for namespaces of nodes. An overlay replaces it.
const EXAMPLE_NAMESPACE: &str = "default";

/// A component for overlays of the base: the operator gets no permissions outside of its namespace and the watched ones. It watches the
/// namespace `sei`, unless the overlay merges another value of the setting.
fn namespaced() -> Value {
    let mut component = json!({ "apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component" });
    let deleted = |kind: &str| {
        let group = "rbac.authorization.k8s.io/v1";
        let patch =
            format!("{{$patch: delete, apiVersion: {group}, kind: {kind}, metadata: {{name: {ACCOUNT}}}}}");
        json!({ "patch": patch })
    };
    component["patches"] = json!([deleted("ClusterRole"), deleted("ClusterRoleBinding")]);
    component["configMapGenerator"] = json!([{
        "name": deployment::SETTINGS, "namespace": NAMESPACE, "behavior": "merge", "literals": ["OUTRIGGER_WATCH_NAMESPACES=sei"],
    }]);
    component
}

fn kustomization_with(resources: &[&str]) -> Value {
    json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources })
}

/// The CRDs are not part of the platform: to delete a CRD is to delete every object of its kind.
fn crds() -> Value {
    let files: Vec<String> = api::crd::all()
        .into_iter()
        .map(|crd| format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural))
        .collect();
    kustomization_with(&files.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The settings are generated from `operator/settings.env`. An overlay adds to them with `behavior: merge`.
fn kustomization() -> Value {
    let mut base = kustomization_with(&[
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

    /// Secrets are patched, to set the owner of an issued one.
    #[test]
    fn rbac_has_no_wildcards_and_limits_secrets_to_node_namespaces() {
        let documents: Vec<Value> = files().into_iter().flat_map(|(_, documents)| documents).collect();
        assert_eq!(overbroad(&documents), Vec::<String>::new());
        for permission in granted(&documents).iter().filter(|permission| permission.resource == "secrets") {
            assert!(matches!(permission.verb.as_str(), "get" | "patch"), "{permission}");
            assert_eq!(permission.namespace.as_deref(), Some(EXAMPLE_NAMESPACE), "{permission}");
        }
    }

    /// Tokens of another ServiceAccount would be those of another identity.
    #[test]
    fn rbac_allows_tokens_of_the_operator_only() {
        let documents: Vec<Value> = files().into_iter().flat_map(|(_, documents)| documents).collect();
        let granted = granted(&documents);
        let tokens: Vec<String> = granted
            .iter()
            .filter(|permission| permission.resource.starts_with("serviceaccounts"))
            .map(ToString::to_string)
            .collect();
        assert_eq!(tokens, [format!("create serviceaccounts/token./{ACCOUNT} in {NAMESPACE}")]);
    }

    /// The proxy in front of a sidecar maps GET, also of the state of the chain, to `get`, and POST, also of a dry-run, to `create`.
    #[test]
    fn rbac_allows_requests_of_the_sidecar_api() {
        let documents: Vec<Value> = files().into_iter().flat_map(|(_, documents)| documents).collect();
        let granted = granted(&documents);
        let is_granted = |verb: &str, resource: &str| {
            granted.iter().any(|permission| permission.verb == verb && permission.resource == resource)
        };
        assert!(is_granted("create", "seinodetasks") && is_granted("get", "seinodetasks"));
        assert!(is_granted("create", "seinodetasks/mark-ready"));
        assert!(!is_granted("create", "seinodetasks/reset-data"), "no plan contains it");
    }
}
