//! The schemas of the CRDs, without an API server.

#![allow(clippy::expect_used, reason = "helpers of tests may panic as tests may")]

mod documents;

use std::collections::{BTreeMap, BTreeSet};

use api::{KMSHealth, SeiNode, SeiNodeDeployment};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Returns the schema of each kind as JSON.
fn schemas() -> Vec<(String, Value)> {
    api::crd::all()
        .into_iter()
        .map(|crd| {
            let crd = serde_json::to_value(crd).expect("a CRD serializes");
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
            (kind, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
        })
        .collect()
}

/// Calls `visit` with the path and schema of every field, including those in lists and maps.
fn walk(path: &str, schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), field, visit);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            walk(&format!("{path}{mark}"), &schema[key], visit);
        }
    }
}

#[test]
fn every_field_has_a_description() {
    let mut count = 0;
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, field| {
            count += 1;
            let described = field["description"].as_str().is_some_and(|text| text.ends_with('.'));
            assert!(
                described || path.ends_with("[]") || path.ends_with("{}"),
                "{path} has no description: {field}"
            );
        });
    }
    assert!(count > 300, "only {count} fields were visited");
}

#[test]
fn enum_fields_do_not_share_descriptions() {
    let mut descriptions = BTreeMap::<String, BTreeSet<String>>::new();
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, field| {
            if field["enum"].is_array() && !path.contains("conditions") {
                let text = field["description"].as_str().unwrap_or_default();
                descriptions
                    .entry(text.to_owned())
                    .or_default()
                    .insert(path.rsplit('.').next().unwrap_or_default().to_owned());
            }
        });
    }
    for (text, fields) in descriptions {
        assert_eq!(fields.len(), 1, "{fields:?} share the description {text:?}");
    }
}

#[test]
fn formats_are_known_and_nothing_is_nullable() {
    const KNOWN: [&str; 3] = ["int32", "int64", "date-time"];
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, field| {
            if let Some(format) = field["format"].as_str() {
                assert!(KNOWN.contains(&format), "{path} has format {format}");
            }
            assert!(field["nullable"].is_null(), "{path} is nullable");
        });
    }
}

#[test]
fn every_user_input_has_a_limit() {
    for (kind, schema) in schemas() {
        walk(&format!("{kind}.spec"), &schema["properties"]["spec"], &mut |path, field| {
            let limit = match field["type"].as_str() {
                Some("string") if field["enum"].is_null() => "maxLength",
                Some("array") => "maxItems",
                Some("object") if field["additionalProperties"].is_object() => "maxProperties",
                _ => return,
            };
            // Map values need a limit only if rules use them, which the API server enforces.
            assert!(field[limit].is_number() || path.ends_with("{}"), "{path} has no {limit}");
        });
    }
}

#[test]
fn transition_rules_are_only_on_spec() {
    let mut count = 0;
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, field| {
            for rule in field["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let transition = rule["rule"].as_str().is_some_and(|rule| rule.contains("oldSelf"));
                if transition {
                    count += 1;
                    assert!(path.ends_with(".spec"), "{path} has a transition rule: {rule}");
                }
                assert!(!path.contains(".status"), "{path} has a rule in the status");
            }
        });
        assert!(
            schema["required"].as_array().is_some_and(|all| all.contains(&"spec".into())),
            "{kind}: spec is not required"
        );
    }
    assert!(count >= 17, "only {count} transition rules");
}

#[test]
fn full_documents_cover_every_schema_field() {
    let documents = documents::all();
    for (kind, schema) in schemas() {
        let mut present = BTreeSet::new();
        for document in documents.iter().filter(|document| document["kind"] == kind.as_str()) {
            paths(&kind, document, &schema, &mut present);
        }
        walk(&kind, &schema, &mut |path, _| {
            // A template is the spec of a node, whose fields are covered by the documents of nodes.
            let in_template = path.starts_with("SeiNodeDeployment.spec.template.spec.");
            let is_rejected = path == "SeiNode.spec.replayer.snapshot.stateSync";
            assert!(in_template || is_rejected || present.contains(path), "no document has {path}");
        });
    }
}

/// Collects the paths of a value in the format of [`walk`].
fn paths(path: &str, value: &Value, schema: &Value, present: &mut BTreeSet<String>) {
    present.insert(path.to_owned());
    if schema["additionalProperties"].is_object() {
        for below in value.as_object().into_iter().flat_map(|map| map.values()) {
            paths(&format!("{path}{{}}"), below, &schema["additionalProperties"], present);
        }
    } else if let Some(items) = value.as_array() {
        for item in items {
            paths(&format!("{path}[]"), item, &schema["items"], present);
        }
    } else {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(below) = value.get(name) {
                paths(&format!("{path}.{name}"), below, field, present);
            }
        }
    }
}

fn round_trip<T: Serialize + DeserializeOwned>(document: &Value) -> Value {
    let parsed: T = serde_json::from_value(document.clone()).expect("the document is valid");
    serde_json::to_value(parsed).expect("an object serializes")
}

#[test]
fn documents_round_trip_through_types() {
    for document in documents::all() {
        let written = match document["kind"].as_str() {
            Some("SeiNode") => round_trip::<SeiNode>(&document),
            Some("SeiNodeDeployment") => round_trip::<SeiNodeDeployment>(&document),
            _ => round_trip::<KMSHealth>(&document),
        };
        assert_eq!(written, document, "{}", document["metadata"]["name"]);
    }
}

#[test]
fn numeric_quantity_is_parsed() {
    let document = serde_json::json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "metadata": {},
        "spec": { "chainId": "a", "image": "b", "fullNode": {}, "sidecar": { "resources": { "limits": { "cpu": 4 } } } },
    });
    let written = round_trip::<SeiNode>(&document);
    assert_eq!(written["spec"]["sidecar"]["resources"]["limits"]["cpu"], "4");
    assert_eq!(written["spec"]["sidecar"]["port"], 7777);
}
