//! The fields of the spec, read from the CRD schema.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::path::{Path, Step};

/// A field of the schema.
#[derive(Clone, Debug)]
pub struct Field {
    /// The schema of the value.
    pub schema: Value,
    /// Whether it has no fields below it.
    pub is_leaf: bool,
}

/// All fields of the spec.
pub struct Schema {
    fields: BTreeMap<Path, Field>,
}

impl Schema {
    /// Reads the schema of SeiNode.
    pub fn for_nodes() -> Self {
        let crds = api::crd::all();
        let nodes = crds.iter().find(|crd| crd.name_any().starts_with("seinodes.")).expect("the SeiNode CRD");
        let crd = serde_json::to_value(nodes).expect("a serializable CRD");
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut fields = BTreeMap::new();
        walk(&Path::default(), spec, &mut fields);
        Self { fields }
    }

    /// Returns the leaf fields.
    pub fn leaves(&self) -> impl Iterator<Item = (&Path, &Value)> {
        self.fields.iter().filter(|(_, field)| field.is_leaf).map(|(path, field)| (path, &field.schema))
    }

    /// Returns the fields that have fields below them.
    pub fn parents(&self) -> impl Iterator<Item = &Path> {
        self.fields.iter().filter(|(path, field)| !field.is_leaf && !path.0.is_empty()).map(|(path, _)| path)
    }

    /// Sets a value, and all required fields of its parents.
    pub fn set(&self, document: &mut Value, at: &Path, new: Value) {
        at.set(document, new);
        for path in at.with_ancestors() {
            self.set_required(document, &path);
        }
    }

    /// Sets the missing required fields of an object.
    fn set_required(&self, document: &mut Value, at: &Path) {
        let Some(object) = self.fields.get(at) else { return };
        for name in object.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let field = at.join(Step::Field(name.into()));
            if field.get(document).is_none() {
                let schema = &self.fields[&field].schema;
                field.set(document, sample(&field, schema, 0));
                self.set_required(document, &field);
            }
        }
    }
}

fn walk(path: &Path, schema: &Value, fields: &mut BTreeMap<Path, Field>) {
    let mut below = Vec::new();
    if let Some(properties) = schema["properties"].as_object() {
        below.extend(properties.iter().map(|(name, schema)| (path.join(Step::Field(name.clone())), schema)));
    }
    if schema["items"].is_object() {
        below.push((path.join(Step::Item), &schema["items"]));
    }
    if schema["additionalProperties"].is_object() {
        below.push((path.join(Step::Entry), &schema["additionalProperties"]));
    }
    fields.insert(path.clone(), Field { schema: schema.clone(), is_leaf: below.is_empty() });
    for (path, schema) in below {
        walk(&path, schema, fields);
    }
}

/// Returns a valid value. Different numbers give different values, where the schema allows more than one.
pub fn sample(path: &Path, schema: &Value, number: usize) -> Value {
    let letter = ["a", "b", "c"][number % 3];
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(format!("{}Gi", number + 1));
    }
    if let Some(choices) = schema["enum"].as_array() {
        // The first isolation is the default of the platform: to set or to remove it has no effect.
        let first = usize::from(path.to_string() == "spec.sidecar.isolation");
        return choices[(number + first) % choices.len()].clone();
    }
    match schema["type"].as_str().unwrap_or_default() {
        "integer" => {
            json!(schema["minimum"].as_f64().map_or(0, |minimum| minimum as i64) + 1 + number as i64)
        }
        "boolean" => json!(number.is_multiple_of(2)),
        "array" => json!([sample(&path.join(Step::Item), &schema["items"], number)]),
        "object" if schema["additionalProperties"].is_object() => {
            json!({ path.key(): sample(&path.join(Step::Entry), &schema["additionalProperties"], number) })
        }
        "object" => json!({}),
        _ => {
            let text = path.to_string();
            if text == "spec.genesisHash" {
                json!(letter.repeat(64))
            } else if text == "spec.externalAddress" {
                json!(format!("{letter}.example:26656"))
            } else if text.contains(".static.addresses") {
                json!(format!("{}@{letter}.example:26656", "0".repeat(40)))
            } else {
                // Names depend on the path: the keys of a validator must be in different Secrets.
                let name: String = text.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
                json!(format!("{}-{letter}", &name[name.len().saturating_sub(40)..]))
            }
        }
    }
}
