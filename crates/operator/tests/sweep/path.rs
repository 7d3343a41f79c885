//! Places in a spec: where they are in its schema, and in a document.

use std::fmt;

use serde_json::{Map, Value, json};

/// One step into a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A field with a name.
    Field(String),
    /// The first item of a list.
    Item,
    /// An entry of a map.
    Entry,
}

/// The key of the entry that is tried in every map: one that resources know too.
pub const KEY: &str = "memory";

/// A place, from the spec on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// The place one step further.
    pub fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The first name.
    pub fn root(&self) -> &str {
        match self.0.first() {
            Some(Step::Field(name)) => name,
            _ => "",
        }
    }

    /// Every place on the way, from the first name to this one.
    pub fn ancestry(&self) -> impl Iterator<Item = Self> {
        (1..=self.0.len()).map(|count| Self(self.0[..count].to_vec()))
    }

    /// What a document has there.
    pub fn get<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(document, |value, step| match step {
            Step::Field(name) => value.get(name),
            Step::Item => value.get(0),
            Step::Entry => value.get(KEY),
        })
    }

    /// Puts a value there. What is missing on the way is made.
    pub fn set(&self, document: &mut Value, new: Value) {
        let mut place = document;
        for step in &self.0 {
            place = match step {
                Step::Field(name) => entry(place, name),
                Step::Entry => entry(place, KEY),
                Step::Item => {
                    if place.as_array().is_none_or(Vec::is_empty) {
                        *place = json!([null]);
                    }
                    &mut place[0]
                }
            };
        }
        *place = new;
    }

    /// Takes away what is there.
    pub fn remove(&self, document: &mut Value) {
        let Some((last, way)) = self.0.split_last() else { return };
        let mut place = document;
        for step in way {
            place = match step {
                Step::Field(name) => &mut place[name.as_str()],
                Step::Entry => &mut place[KEY],
                Step::Item => &mut place[0],
            };
        }
        match (place, last) {
            (Value::Object(fields), Step::Field(name)) => drop(fields.remove(name)),
            (Value::Object(fields), Step::Entry) => drop(fields.remove(KEY)),
            (Value::Array(items), Step::Item) => drop(items.remove(0)),
            _ => {}
        }
    }
}

fn entry<'v>(place: &'v mut Value, name: &str) -> &'v mut Value {
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    &mut place[name]
}

/// As conditions name it.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec")?;
        for step in &self.0 {
            match step {
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Item => write!(f, "[0]")?,
                Step::Entry => write!(f, "[{KEY}]")?,
            }
        }
        Ok(())
    }
}
