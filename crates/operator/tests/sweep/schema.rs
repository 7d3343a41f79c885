//! What can be said in a spec, read from the schema that the API server checks it by.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::path::{Path, Step};

/// A place of the schema.
#[derive(Clone, Debug)]
pub struct Place {
    /// What may be there.
    pub schema: Value,
    /// Whether nothing is below it.
    pub leaf: bool,
}

/// Every place of the spec's schema.
pub struct Schema {
    places: BTreeMap<Path, Place>,
}

impl Schema {
    /// That of nodes.
    pub fn of_nodes() -> Self {
        let crds = api::crd::all();
        let nodes =
            crds.iter().find(|crd| crd.name_any().starts_with("seinodes.")).expect("nodes have a definition");
        let crd = serde_json::to_value(nodes).expect("a definition is JSON");
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut places = BTreeMap::new();
        walk(&Path::default(), spec, &mut places);
        Self { places }
    }

    /// Places with nothing below them.
    pub fn leaves(&self) -> impl Iterator<Item = (&Path, &Value)> {
        self.places.iter().filter(|(_, place)| place.leaf).map(|(path, place)| (path, &place.schema))
    }

    /// Places with something below them.
    pub fn parents(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().filter(|(path, place)| !place.leaf && !path.0.is_empty()).map(|(path, _)| path)
    }

    /// Puts a value there, and beside it, on the way to it, all that must be there.
    pub fn set(&self, document: &mut Value, at: &Path, new: Value) {
        at.set(document, new);
        for on_the_way in at.ancestry() {
            self.complete(document, &on_the_way);
        }
    }

    /// Adds what a place must have.
    fn complete(&self, document: &mut Value, at: &Path) {
        let Some(place) = self.places.get(at) else { return };
        for name in place.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let field = at.then(Step::Field(name.into()));
            if field.get(document).is_none() {
                let schema = &self.places[&field].schema;
                field.set(document, sample(&field, schema, 0));
                self.complete(document, &field);
            }
        }
    }
}

fn walk(path: &Path, schema: &Value, places: &mut BTreeMap<Path, Place>) {
    let mut below = Vec::new();
    if let Some(fields) = schema["properties"].as_object() {
        below.extend(fields.iter().map(|(name, schema)| (path.then(Step::Field(name.clone())), schema)));
    }
    if schema["items"].is_object() {
        below.push((path.then(Step::Item), &schema["items"]));
    }
    if schema["additionalProperties"].is_object() {
        below.push((path.then(Step::Entry), &schema["additionalProperties"]));
    }
    places.insert(path.clone(), Place { schema: schema.clone(), leaf: below.is_empty() });
    for (path, schema) in below {
        walk(&path, schema, places);
    }
}

/// A value that may be there. Those with different numbers differ, where more than one may be there.
pub fn sample(path: &Path, schema: &Value, number: usize) -> Value {
    let letter = ["a", "b", "c"][number % 3];
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(format!("{}Gi", number + 1));
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices[number % choices.len()].clone();
    }
    match schema["type"].as_str().unwrap_or_default() {
        "integer" => json!(schema["minimum"].as_f64().map_or(0, |least| least as i64) + 1 + number as i64),
        "boolean" => json!(number.is_multiple_of(2)),
        "array" => json!([sample(&path.then(Step::Item), &schema["items"], number)]),
        "object" if schema["additionalProperties"].is_object() => {
            json!({ crate::path::KEY: sample(&path.then(Step::Entry), &schema["additionalProperties"], number) })
        }
        "object" => json!({}),
        _ => {
            let text = path.to_string();
            if text == "spec.externalAddress" {
                json!(format!("{letter}.example:26656"))
            } else if text.contains(".static.addresses") {
                json!(format!("id@{letter}.example:26656"))
            } else {
                // Names differ by where they are: keys of a validator must not be in one Secret.
                let name: String = text.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
                json!(format!("{}-{letter}", &name[name.len().saturating_sub(40)..]))
            }
        }
    }
}
