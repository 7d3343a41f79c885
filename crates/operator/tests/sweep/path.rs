//! Paths of fields in the spec, for schemas and documents.

use std::fmt;

use serde_json::{Map, Value, json};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A named field.
    Field(String),
    /// The first item of a list.
    Item,
    /// An entry of a map.
    Entry,
}

/// The key that is tested in maps: also a valid resource name.
const KEY: &str = "memory";

/// The key that is tested in overrides: a setting of seid with any text.
const OVERRIDE: &str = "chain.moniker";

/// A path below `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// Appends a step.
    pub fn join(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// Returns the first field name.
    pub fn root(&self) -> &str {
        match self.0.first() {
            Some(Step::Field(name)) => name,
            _ => "",
        }
    }

    /// Returns the key that is tested in the map at or above this path.
    pub fn key(&self) -> &'static str {
        if self.root() == "overrides" { OVERRIDE } else { KEY }
    }

    /// Returns the path and its ancestors, shortest first.
    pub fn with_ancestors(&self) -> impl Iterator<Item = Self> {
        (1..=self.0.len()).map(|count| Self(self.0[..count].to_vec()))
    }

    /// Returns the value in a document.
    pub fn get<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(document, |value, step| match step {
            Step::Field(name) => value.get(name),
            Step::Item => value.get(0),
            Step::Entry => value.get(self.key()),
        })
    }

    /// Sets the value in a document. Creates missing parents.
    pub fn set(&self, document: &mut Value, new: Value) {
        let mut value = document;
        for step in &self.0 {
            value = match step {
                Step::Field(name) => entry(value, name),
                Step::Entry => entry(value, self.key()),
                Step::Item => {
                    if value.as_array().is_none_or(Vec::is_empty) {
                        *value = json!([null]);
                    }
                    &mut value[0]
                }
            };
        }
        *value = new;
    }

    /// Removes the value from a document.
    pub fn remove(&self, document: &mut Value) {
        let Some((last, parents)) = self.0.split_last() else { return };
        let mut value = document;
        for step in parents {
            value = match step {
                Step::Field(name) => &mut value[name.as_str()],
                Step::Entry => &mut value[self.key()],
                Step::Item => &mut value[0],
            };
        }
        match (value, last) {
            (Value::Object(fields), Step::Field(name)) => drop(fields.remove(name)),
            (Value::Object(fields), Step::Entry) => drop(fields.remove(self.key())),
            (Value::Array(items), Step::Item) => drop(items.remove(0)),
            _ => {}
        }
    }
}

fn entry<'v>(value: &'v mut Value, name: &str) -> &'v mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    &mut value[name]
}

/// Formats the path like conditions do.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec")?;
        for step in &self.0 {
            match step {
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Item => write!(f, "[0]")?,
                Step::Entry => write!(f, "[{}]", self.key())?,
            }
        }
        Ok(())
    }
}
