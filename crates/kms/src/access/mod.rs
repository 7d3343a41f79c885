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
    use super::*;

    #[test]
    fn the_files_in_deploy_are_what_the_code_says() -> testbed::Result<()> {
        for (name, documents) in files() {
            let yaml = |document: &Value| format!("---\n{}", serde_saphyr::to_string(document).unwrap());
            let text: String = documents.iter().map(yaml).collect();
            testbed::generated::check(&format!("deploy/kms/{name}"), &text)?;
        }
        Ok(())
    }

    #[test]
    fn nobody_may_list_secrets_or_do_what_is_not_named() {
        for (_, documents) in files() {
            for rule in documents.iter().filter_map(|one| one["rules"].as_array()).flatten() {
                let has = |name: &str, text: &str| {
                    rule[name].as_array().is_some_and(|all| all.iter().any(|one| one == text))
                };
                assert!(!has("verbs", "*") && !has("resources", "*") && !has("apiGroups", "*"), "{rule}");
                assert!(!has("verbs", "escalate") && !has("verbs", "bind"), "{rule}");
                if has("resources", "secrets") {
                    assert!(!has("verbs", "list") && !has("verbs", "watch"), "{rule}");
                    let named = rule["resourceNames"].is_array();
                    let changes = ["update", "patch", "delete"].iter().any(|verb| has("verbs", verb));
                    assert!(named || !changes, "{rule}");
                }
            }
        }
    }
}
