//! Markers: files that say that something was done, and with what. They outlive the ledger.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::files;

/// A marker in a node's home.
#[derive(Clone, Copy, Debug)]
pub struct Marker(pub &'static str);

/// A snapshot was restored.
pub const SNAPSHOT: Marker = Marker(".sei-sidecar-snapshot-done");
/// The genesis file was fetched.
pub const GENESIS: Marker = Marker(".sei-sidecar-genesis-done");
/// State sync was configured.
pub const STATE_SYNC: Marker = Marker(".sei-sidecar-statesync-done");

/// The node's keys were made.
pub const IDENTITY: Marker = Marker(".sei-sidecar-identity-done");
/// The node's declaration was made.
pub const GENTX: Marker = Marker(".sei-sidecar-gentx-done");
/// What others need was uploaded.
pub const ARTIFACTS: Marker = Marker(".sei-sidecar-artifact-upload-done");
/// The genesis of a new chain was made.
pub const ASSEMBLE: Marker = Marker(".sei-sidecar-assemble-done");

/// What a marker says.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// It was done, with these parameters, and came to this.
    With(Value, Value),
    /// It was done by the program that we replace, which does not say with what.
    Somehow,
}

impl Done {
    /// What a task returns that finds this marker: what it came to then. A difference to what it was given must not go unseen.
    #[must_use]
    pub fn result(&self, given: &Value) -> Value {
        let mut result = match self {
            Self::With(_, result) if result.is_object() => result.clone(),
            _ => json!({}),
        };
        result["skipped"] = json!("done already");
        if let Self::With(params, _) = self
            && params != given
        {
            let other = "done already, with other parameters: remove the marker to have it done again";
            result["skipped"] = json!(other);
            result["doneWith"] = params.clone();
        }
        result
    }
}

impl Marker {
    /// What it says, if it is there.
    pub fn read(self, home: &Path) -> io::Result<Option<Done>> {
        let text = files::read(&home.join(self.0))?;
        Ok(text.map(|text| match serde_json::from_str::<Value>(&text) {
            Ok(mut said) if said["params"].is_object() => {
                Done::With(said["params"].take(), said["result"].take())
            }
            _ => Done::Somehow,
        }))
    }

    /// Says that it was done, and what it came to.
    pub fn write(self, home: &Path, params: &Value, result: &Value) -> io::Result<()> {
        let text = format!("{}\n", json!({ "params": params, "result": result }));
        files::write(&home.join(self.0), text.as_bytes(), 0o644)
    }

    /// Says that it was not.
    pub fn remove(self, home: &Path) -> io::Result<()> {
        files::remove(&home.join(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S12.
    #[test]
    fn s12_a_marker_says_what_it_was_made_with() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        assert_eq!(SNAPSHOT.read(home).unwrap(), None);
        let params = json!({"targetHeight": 5});
        SNAPSHOT.write(home, &params, &json!({"height": 4})).unwrap();
        let done = SNAPSHOT.read(home).unwrap().unwrap();
        assert_eq!(done, Done::With(params.clone(), json!({"height": 4})));
        assert_eq!(done.result(&params), json!({"height": 4, "skipped": "done already"}));
        assert_eq!(done.result(&json!({"targetHeight": 6}))["doneWith"], params);
        std::fs::write(home.join(SNAPSHOT.0), "").unwrap();
        assert_eq!(SNAPSHOT.read(home).unwrap(), Some(Done::Somehow));
        SNAPSHOT.remove(home).unwrap();
        assert_eq!(SNAPSHOT.read(home).unwrap(), None);
    }
}
