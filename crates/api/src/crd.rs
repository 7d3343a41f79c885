//! The definitions of our kinds, as they are to be installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube_core::CustomResourceExt;

use crate::{KMSHealth, SeiNode, SeiNodeDeployment};

/// Every definition, in the order of their names. Install these, not what `CustomResourceExt::crd` returns.
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

/// Makes `null` mean absent, as in the built-in kinds. The derive macro makes every optional field nullable; a stored null
/// would then be a third state beside a value and nothing, which no reader of the object expects.
fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for_each_below(schema, forbid_null);
}

/// Rules are for what users write. The status mirrors parts of specs; one that was accepted before a rule was sharpened
/// must not keep the operator from writing what it has seen.
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
