//! The ValidatingAdmissionPolicy that allows only images with certain prefixes in nodes and fleets.
//!
//! The prefixes are part of the policy, and not in a ConfigMap that it refers to: the operator may patch ConfigMaps, and a missing one
//! would either allow every image or reject every update, such as that of a finalizer.

use api::names::group;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Value, json};

const NAME: &str = "seinode-allowed-images.outrigger.dev";

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// A reference with a registry. A reference without one means another image to another container runtime. References that a runtime
/// would reject, such as those with `..` in their path, match no prefix.
const REFERENCE: &str = "^((localhost|[a-z0-9-]+([.][a-z0-9-]+)+|[[][0-9a-f:]+[]])(:[0-9]+)?|[a-z0-9-]+:[0-9]+)\
    (/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?\
    (@sha256:[0-9a-f]{64}|@sha512:[0-9a-f]{128})?$";

/// Whether `prefix` allows `one.image`. A prefix ends at a boundary: `/`, or the start of a tag or digest. After the name of a registry,
/// a colon would start its port.
const IS_ALLOWED: &str = "one.image == prefix || (one.image.startsWith(prefix) && (prefix.endsWith('/') \
    || one.image.substring(size(prefix)).startsWith('/') \
    || (prefix.contains('/') && one.image.substring(size(prefix)).matches('^[:@]'))))";

/// Returns the fields below a schema that hold an image.
fn image_fields(schema: &JSONSchemaProps) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for (name, field) in schema.properties.iter().flatten() {
        if name.to_lowercase().ends_with("image") {
            found.push(vec![name.as_str()]);
        }
        found.extend(image_fields(field).into_iter().map(|below| [&[name.as_str()][..], &below].concat()));
    }
    found
}

/// Returns an entry of the list `images`: the name of a field, its value and its previous value.
fn entry(field: &[&str]) -> String {
    let read = |spec: &str| format!("string(variables.{spec}.?{}.orValue(''))", field.join(".?"));
    format!(
        "{{'field': variables.path + '.{}', 'image': {}, 'old': {}}}",
        field.join("."),
        read("spec"),
        read("oldSpec")
    )
}

/// Returns the policy, which allows no image, and its binding. An overlay replaces the first variable.
pub(super) fn documents() -> Vec<Value> {
    let crds = api::crd::all();
    let nodes = crds.iter().filter(|crd| crd.spec.names.plural == "seinodes");
    let versions = nodes.flat_map(|crd| &crd.spec.versions);
    let roots = versions.filter_map(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
    let specs = roots.filter_map(|root| root.properties.as_ref()?.get("spec"));
    let entries: Vec<String> = specs.flat_map(image_fields).map(|field| entry(&field)).collect();
    let spec_of =
        |object: &str| format!("variables.isNode ? dyn({object}).spec : dyn({object}).spec.template.spec");
    let variables = json!([
        { "name": "prefixes", "expression": "[]" },
        { "name": "isNode", "expression": "request.resource.resource == 'seinodes'" },
        { "name": "path", "expression": "variables.isNode ? 'spec' : 'spec.template.spec'" },
        { "name": "spec", "expression": spec_of("object") },
        { "name": "oldSpec", "expression": format!("oldObject == null ? dyn({{}}) : ({})", spec_of("oldObject")) },
        { "name": "images", "expression": format!("[{}]", entries.join(", ")) },
        // A field that is not edited is not checked: an object that is older than the policy can still be edited and deleted.
        { "name": "edited", "expression": "variables.images.filter(one, one.image != '' && one.image != one.old)" },
        {
            "name": "denied",
            "expression": format!(
                "variables.edited.filter(one, !(one.image.matches('{REFERENCE}') && variables.prefixes.exists(prefix, {IS_ALLOWED})))"
            ),
        },
    ]);
    let message = "variables.denied.map(one, one.field + ' \"' + one.image + '\"').join(', ') + ' is not allowed: use an image \
        with its registry that starts with one of [' + variables.prefixes.join(', ') + ']'";
    let rule = json!({
        "apiGroups": [group::SEI],
        "apiVersions": [group::VERSION],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["seinodes", "seinodedeployments"],
    });
    vec![
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": { "name": NAME },
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": [rule] },
                "variables": variables,
                "validations": [{
                    "expression": "variables.denied.size() == 0",
                    "messageExpression": message,
                    "message": "an image of the node is not allowed",
                    "reason": "Forbidden",
                }],
            },
        }),
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": NAME },
            "spec": { "policyName": NAME, "validationActions": ["Deny"] },
        }),
    ]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    };

    use super::*;

    /// Returns all fields below a schema, also in lists and maps, whose names contain `image`.
    fn all_image_fields(path: &str, schema: &JSONSchemaProps) -> Vec<String> {
        let mut found = Vec::new();
        for (name, field) in schema.properties.iter().flatten() {
            let path = format!("{path}.{name}");
            if name.to_lowercase().contains("image") {
                found.push(path.clone());
            }
            found.extend(all_image_fields(&path, field));
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            found.extend(all_image_fields(&format!("{path}[]"), items));
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            found.extend(all_image_fields(&format!("{path}.*"), values));
        }
        found
    }

    #[test]
    fn every_image_field_of_the_crds_is_checked() {
        let policy = &documents()[0];
        let variables = policy["spec"]["variables"].as_array().unwrap();
        let images = variables.iter().find(|variable| variable["name"] == "images").unwrap();
        let images = images["expression"].as_str().unwrap();
        let mut checked: Vec<String> = images
            .split("variables.path + '")
            .skip(1)
            .map(|rest| rest.split('\'').next().unwrap().to_owned())
            .collect();
        checked.sort();
        assert_eq!(
            checked,
            [
                ".fullNode.snapshot.bootstrapImage",
                ".image",
                ".replayer.snapshot.bootstrapImage",
                ".sidecar.image",
                ".validator.snapshot.bootstrapImage"
            ]
        );
        for (plural, path) in [("seinodes", "spec"), ("seinodedeployments", "spec.template.spec")] {
            let crds = api::crd::all();
            let crd = crds.iter().find(|crd| crd.spec.names.plural == plural).unwrap();
            let root = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
            let mut expected = all_image_fields("spec", &root.properties.as_ref().unwrap()["spec"]);
            expected.sort();
            let checked: Vec<String> = checked.iter().map(|field| format!("{path}{field}")).collect();
            assert_eq!(checked, expected, "{plural}");
        }
    }
}
