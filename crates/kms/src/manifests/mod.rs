//! Generated manifests: least-privilege RBAC for reporters, aggregators and preflight controllers, and a ValidatingAdmissionPolicy that
//! limits each reporter to the entries of its own node, which RBAC cannot express.

mod policy;
mod preflight;
mod rbac;

use serde_json::Value;

/// Returns each RBAC and policy file of `deploy/kms` with its documents.
#[must_use]
pub fn files() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("reporter-rbac.yaml", rbac::reporter()),
        ("reporter-policy.yaml", policy::documents()),
        ("aggregator-rbac.yaml", rbac::aggregator()),
        ("aggregator-openshift-rbac.yaml", rbac::aggregator_on_openshift()),
        ("preflight-rbac.yaml", preflight::controller()),
    ]
}

#[cfg(test)]
mod tests {
    use testbed::harness::rbac::{granted, overbroad};

    use super::*;

    #[test]
    fn generated_manifests_match_code() -> testbed::Result<()> {
        files().iter().try_for_each(|(name, documents)| {
            testbed::harness::generated::check_yaml(&format!("deploy/kms/{name}"), documents)
        })
    }

    #[test]
    fn no_role_lists_secrets_or_grants_wildcards() {
        let documents: Vec<Value> = files().into_iter().flat_map(|(_, documents)| documents).collect();
        assert_eq!(overbroad(&documents), Vec::<String>::new());
        for right in granted(&documents).iter().filter(|right| right.resource == "secrets") {
            match right.verb.as_str() {
                // RBAC cannot limit create to a name.
                "get" | "create" => {}
                "update" | "patch" | "delete" => assert!(right.name.is_some(), "{right}"),
                _ => panic!("{right}"),
            }
        }
    }
}
