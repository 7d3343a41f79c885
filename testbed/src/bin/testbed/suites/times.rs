//! How long each binary took in the last run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use testbed::{Error, Result};

use super::binary::Binary;

/// Inspects the whole machine and waits until no other suite runs, so it is started last.
const LAST: &str = "cleanup";

/// Seconds by binary name.
pub struct Times(BTreeMap<String, u64>);

impl Times {
    const FILE: &str = "times.json";

    pub fn load(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join(Self::FILE)).unwrap_or_default();
        Self(serde_json::from_str(&text).unwrap_or_default())
    }

    pub fn record(&mut self, name: &str, took: Duration) {
        self.0.insert(name.to_owned(), took.as_secs());
    }

    pub fn usual(&self, name: &str) -> String {
        self.0.get(name).map_or_else(|| "first run".into(), |seconds| format!("usually {seconds} s"))
    }

    /// Sorts binaries so that the next to start is at the end: unknown and long ones first, so that no long one is left over.
    pub fn sort(&self, mut binaries: Vec<Binary>) -> Vec<Binary> {
        let is_last = |binary: &Binary| binary.name.ends_with(&format!("/{LAST}"));
        let seconds = |binary: &Binary| self.0.get(&binary.name).copied().unwrap_or(u64::MAX);
        binaries.sort_by_key(|binary| (!is_last(binary), seconds(binary)));
        binaries
    }

    pub fn store(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.0).unwrap_or_default();
        let stored = fs::write(folder.join(Self::FILE), text);
        stored.map_err(|source| Error::Io { what: "storing test times".into(), source })
    }
}
