//! The CustomResourceDefinitions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube_core::CustomResourceExt;

use crate::{KMSHealth, SeiNode, SeiNodeDeployment};

/// Returns all CRDs, ordered by name. Install these, not the result of `CustomResourceExt::crd`.
#[must_use]
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![KMSHealth::crd(), SeiNodeDeployment::crd(), SeiNode::crd()];
    for version in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        if let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            forbid_null(root);
            if let Some(status) = root.properties.as_mut().and_then(|fields| fields.get_mut("status")) {
                drop_rules(status);
            }
        }
    }
    crds
}

/// Makes `null` mean absent, as in the built-in kinds. The derive macro makes optional fields nullable, which would allow a
/// stored null as a third state that no client expects.
fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for_each_below(schema, forbid_null);
}

/// Drops validation rules. The status mirrors parts of the spec; a value that was accepted before a rule was tightened must not
/// prevent status writes.
fn drop_rules(schema: &mut JSONSchemaProps) {
    schema.x_kubernetes_validations = None;
    for_each_below(schema, drop_rules);
}

fn for_each_below(schema: &mut JSONSchemaProps, change: fn(&mut JSONSchemaProps)) {
    schema.properties.iter_mut().flat_map(|fields| fields.values_mut()).for_each(change);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        change(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        change(values);
    }
}
