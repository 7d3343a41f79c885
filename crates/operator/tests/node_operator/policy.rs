//! Admission policies that deny writes in the namespace of a test.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use testbed::Error;

use crate::fixture::Fixture;

/// An admission policy. It must be removed at the end of its test.
pub struct Policy {
    name: String,
    policies: Api<ValidatingAdmissionPolicy>,
    bindings: Api<ValidatingAdmissionPolicyBinding>,
}

impl Policy {
    /// Denies the operations of a rule in the namespace unless `validation` (with `expression`, `message` and possibly
    /// `reason`) holds. The API server enforces it a moment later.
    pub async fn deny_unless(fixture: &Fixture<'_>, rule: Value, validation: Value) -> Result<Self, Error> {
        let name = fixture.ns.clone();
        let policies = Api::all(fixture.client.clone());
        let bindings = Api::all(fixture.client.clone());
        let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": name },
            "spec": {
                "matchConstraints": { "namespaceSelector": selector, "resourceRules": [rule] },
                "validations": [validation],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Deny"] },
        });
        policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
        bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
        Ok(Self { name, policies, bindings })
    }

    /// Removes the policy.
    pub async fn remove(self) -> Result<(), Error> {
        self.bindings.delete(&self.name, &DeleteParams::default()).await?;
        self.policies.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }
}
