//! Marker files: they record that a task completed, and with which parameters. They outlive the ledger.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::files;

/// A marker file in the node's home.
#[derive(Clone, Copy, Debug)]
pub struct Marker(pub &'static str);

/// `snapshot-restore` completed.
pub const SNAPSHOT: Marker = Marker(".sei-sidecar-snapshot-done");
/// `configure-genesis` completed.
pub const GENESIS: Marker = Marker(".sei-sidecar-genesis-done");
/// `configure-state-sync` completed.
pub const STATE_SYNC: Marker = Marker(".sei-sidecar-statesync-done");

/// `generate-identity` completed.
pub const IDENTITY: Marker = Marker(".sei-sidecar-identity-done");
/// `generate-gentx` completed.
pub const GENTX: Marker = Marker(".sei-sidecar-gentx-done");
/// `upload-genesis-artifacts` completed.
pub const ARTIFACTS: Marker = Marker(".sei-sidecar-artifact-upload-done");
/// `assemble-and-upload-genesis` completed.
pub const ASSEMBLE: Marker = Marker(".sei-sidecar-assemble-done");

/// The content of a marker.
#[derive(Clone, Debug, PartialEq)]
pub enum Completion {
    /// The parameters and the result of the completed task.
    Recorded(Value, Value),
    /// An empty marker, as upstream writes it.
    Legacy,
}

impl Completion {
    /// Returns the result for a task that finds this marker: the recorded result, and the recorded parameters if they differ.
    #[must_use]
    pub fn skipped_result(&self, requested: &Value) -> Value {
        let mut result = match self {
            Self::Recorded(_, result) if result.is_object() => result.clone(),
            _ => json!({}),
        };
        result["skipped"] = json!("already done");
        if let Self::Recorded(params, _) = self
            && params != requested
        {
            let other = "already done with other parameters: remove the marker to run it again";
            result["skipped"] = json!(other);
            result["doneWith"] = params.clone();
        }
        result
    }
}

impl Marker {
    /// Reads the marker; `None` if it does not exist.
    pub fn read(self, home: &Path) -> io::Result<Option<Completion>> {
        let text = files::read(&home.join(self.0))?;
        Ok(text.map(|text| match serde_json::from_str::<Value>(&text) {
            Ok(mut content) if content["params"].is_object() => {
                Completion::Recorded(content["params"].take(), content["result"].take())
            }
            _ => Completion::Legacy,
        }))
    }

    /// Records completion.
    pub fn write(self, home: &Path, params: &Value, result: &Value) -> io::Result<()> {
        let text = format!("{}\n", json!({ "params": params, "result": result }));
        files::write(&home.join(self.0), text.as_bytes(), 0o644)
    }

    /// Removes the marker.
    pub fn remove(self, home: &Path) -> io::Result<()> {
        files::remove(&home.join(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_records_params_and_reports_differences() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        assert_eq!(SNAPSHOT.read(home).unwrap(), None);
        let params = json!({"targetHeight": 5});
        SNAPSHOT.write(home, &params, &json!({"height": 4})).unwrap();
        let completion = SNAPSHOT.read(home).unwrap().unwrap();
        assert_eq!(completion, Completion::Recorded(params.clone(), json!({"height": 4})));
        assert_eq!(completion.skipped_result(&params), json!({"height": 4, "skipped": "already done"}));
        assert_eq!(completion.skipped_result(&json!({"targetHeight": 6}))["doneWith"], params);
        std::fs::write(home.join(SNAPSHOT.0), "").unwrap();
        assert_eq!(SNAPSHOT.read(home).unwrap(), Some(Completion::Legacy));
        SNAPSHOT.remove(home).unwrap();
        assert_eq!(SNAPSHOT.read(home).unwrap(), None);
    }
}
