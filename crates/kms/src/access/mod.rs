//! What reporters, aggregators and preflight controllers may do: the least that they need. RBAC cannot say that a reporter speaks for its own node only; a
//! ValidatingAdmissionPolicy does.

mod policy;
mod preflight;
mod rbac;

use serde_json::Value;

/// Each file of `deploy/kms`, and its documents.
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
    use testbed::harness::rights::{boundless, granted};

    use super::*;

    #[test]
    fn the_files_in_deploy_are_what_the_code_says() -> testbed::Result<()> {
        files().iter().try_for_each(|(name, documents)| {
            testbed::harness::generated::check_documents(&format!("deploy/kms/{name}"), documents)
        })
    }

    #[test]
    fn nobody_may_list_secrets_or_do_what_is_not_named() {
        let documents: Vec<Value> = files().into_iter().flat_map(|(_, documents)| documents).collect();
        assert_eq!(boundless(&documents), Vec::<String>::new());
        for right in granted(&documents).iter().filter(|right| right.resource == "secrets") {
            match right.verb.as_str() {
                // A right to create cannot be limited to a name.
                "get" | "create" => {}
                "update" | "patch" | "delete" => assert!(right.name.is_some(), "{right}"),
                _ => panic!("{right}"),
            }
        }
    }
}
