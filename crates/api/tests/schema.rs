//! The schemas of our kinds, without an API server.

#![allow(clippy::expect_used, reason = "helpers of tests may panic as tests may")]

mod documents;

use std::collections::{BTreeMap, BTreeSet};

use api::{KMSHealth, SeiNode, SeiNodeDeployment};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The schema of each kind, as JSON.
fn schemas() -> Vec<(String, Value)> {
    api::crd::all()
        .into_iter()
        .map(|crd| {
            let crd = serde_json::to_value(crd).expect("a definition is JSON");
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
            (kind, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
        })
        .collect()
}

/// Calls `see` with the path and schema of every field, below lists and maps as well.
fn walk(path: &str, schema: &Value, see: &mut impl FnMut(&str, &Value)) {
    see(path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), field, see);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            walk(&format!("{path}{mark}"), &schema[key], see);
        }
    }
}

#[test]
fn every_field_has_a_description() {
    let mut seen = 0;
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, field| {
            seen += 1;
            let described = field["description"].as_str().is_some_and(|text| text.ends_with('.'));
            assert!(
                described || path.ends_with("[]") || path.ends_with("{}"),
                "{path} is not described: {field}"
            );
        });
    }
    assert!(seen > 300, "only {seen} fields were seen");
}

#[test]
fn a_field_is_described_by_what_it_means_not_by_its_type() {
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
        assert_eq!(fields.len(), 1, "{fields:?} are all described as {text:?}");
    }
}

#[test]
fn no_format_is_unknown_to_the_api_server_and_nothing_is_nullable() {
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
fn whatever_a_user_writes_has_a_limit() {
    for (kind, schema) in schemas() {
        walk(&format!("{kind}.spec"), &schema["properties"]["spec"], &mut |path, field| {
            let limit = match field["type"].as_str() {
                Some("string") if field["enum"].is_null() => "maxLength",
                Some("array") => "maxItems",
                Some("object") if field["additionalProperties"].is_object() => "maxProperties",
                _ => return,
            };
            // What a map holds needs a limit only where rules look at it, and there the API server insists.
            assert!(field[limit].is_number() || path.ends_with("{}"), "{path} has no {limit}");
        });
    }
}

#[test]
fn rules_about_changes_are_on_the_spec_only() {
    let mut seen = 0;
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, field| {
            for rule in field["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let transition = rule["rule"].as_str().is_some_and(|rule| rule.contains("oldSelf"));
                if transition {
                    seen += 1;
                    assert!(path.ends_with(".spec"), "{path} has a rule about changes: {rule}");
                }
                assert!(!path.contains(".status"), "{path} has a rule, and users do not write it");
            }
        });
        assert!(
            schema["required"].as_array().is_some_and(|all| all.contains(&"spec".into())),
            "{kind}: no spec"
        );
    }
    assert!(seen >= 17, "only {seen} rules about changes");
}

#[test]
fn the_full_documents_have_every_field_of_the_schemas() {
    let documents = documents::all();
    for (kind, schema) in schemas() {
        let mut present = BTreeSet::new();
        for document in documents.iter().filter(|document| document["kind"] == kind.as_str()) {
            paths(&kind, document, &schema, &mut present);
        }
        walk(&kind, &schema, &mut |path, _| {
            // A template is a node's spec, whose fields are all in the documents of nodes.
            let of_template = path.starts_with("SeiNodeDeployment.spec.template.spec.");
            let refused = path == "SeiNode.spec.replayer.snapshot.stateSync";
            assert!(of_template || refused || present.contains(path), "no document has {path}");
        });
    }
}

/// The paths of a value, as [`walk`] gives them for its schema.
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

fn through<T: Serialize + DeserializeOwned>(document: &Value) -> Value {
    let read: T = serde_json::from_value(document.clone()).expect("the document is of its kind");
    serde_json::to_value(read).expect("an object is JSON")
}

#[test]
fn no_field_is_lost_on_the_way_through_our_types() {
    for document in documents::all() {
        let written = match document["kind"].as_str() {
            Some("SeiNode") => through::<SeiNode>(&document),
            Some("SeiNodeDeployment") => through::<SeiNodeDeployment>(&document),
            _ => through::<KMSHealth>(&document),
        };
        assert_eq!(written, document, "{}", document["metadata"]["name"]);
    }
}

#[test]
fn an_amount_that_is_a_number_is_read() {
    let document = serde_json::json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "metadata": {},
        "spec": { "chainId": "a", "image": "b", "fullNode": {}, "sidecar": { "resources": { "limits": { "cpu": 4 } } } },
    });
    let written = through::<SeiNode>(&document);
    assert_eq!(written["spec"]["sidecar"]["resources"]["limits"]["cpu"], "4");
    assert_eq!(written["spec"]["sidecar"]["port"], 7777);
}
