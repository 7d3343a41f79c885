//! Which unfinished tasks this sidecar has accepted. seid can write to the ledger, but not to the private directory: what is not
//! recorded there was not submitted through the API. A signature in the ledger would not be enough, since seid could put back the
//! signed row of a task that has finished.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::row::TaskRow;
use crate::node::files;

/// The directory of the records below the private directory.
const DIR: &str = "accepted-tasks";

/// One execution of a task: the name of its record. It contains nothing that a row chooses, such as the ID.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RecordName(String);

impl RecordName {
    pub(super) fn of(row: &TaskRow) -> Self {
        let params = row.params.as_ref().map_or("{}", |params| params.get());
        let params = if params == "null" { "{}" } else { params };
        let run = row.run.to_string();
        let mut hash = Sha256::new();
        for field in [&row.id, &row.task_type, params, row.submitted_at.as_str(), &run] {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        Self(chain::hex(&hash.finalize()))
    }
}

/// The records. They are not synced: a task whose record is lost with the machine is submitted again by its client.
#[derive(Debug)]
pub(super) struct AcceptedTasks {
    /// `None` without a private directory: every task counts as accepted.
    dir: Option<PathBuf>,
}

impl AcceptedTasks {
    pub(super) fn open(private_dir: Option<&Path>) -> io::Result<Self> {
        let dir = private_dir.map(|dir| dir.join(DIR));
        if let Some(dir) = &dir {
            files::create_private_dir(dir)?;
        }
        Ok(Self { dir })
    }

    /// Returns whether this sidecar has accepted an execution and not finished it.
    pub(super) fn contains(&self, name: &RecordName) -> bool {
        self.dir.as_ref().is_none_or(|dir| dir.join(&name.0).is_file())
    }

    /// Records an accepted execution. If that fails it runs, but is not resumed.
    pub(super) fn add(&self, name: &RecordName) {
        if let Some(dir) = &self.dir
            && let Err(error) = File::create(dir.join(&name.0))
        {
            tracing::warn!(%error, dir = %dir.display(), "cannot record an accepted task; a restart will not resume it");
        }
    }

    /// Removes the record of an execution that has ended.
    pub(super) fn remove(&self, name: &RecordName) {
        if let Some(dir) = &self.dir
            && let Err(error) = files::remove(&dir.join(&name.0))
        {
            tracing::warn!(%error, dir = %dir.display(), "cannot remove the record of a finished task");
        }
    }

    /// Removes the records of all other executions, which a killed process has left.
    pub(super) fn retain(&self, unfinished: &HashSet<RecordName>) -> io::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        for entry in fs::read_dir(dir)? {
            let name = RecordName(entry?.file_name().to_string_lossy().into_owned());
            if !unfinished.contains(&name) {
                files::remove(&dir.join(&name.0))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use api::sidecar_wire::TaskState;

    use super::super::time::StoredTime;
    use super::*;

    fn row() -> TaskRow {
        TaskRow {
            id: "0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71a4".into(),
            task_type: "config-patch".into(),
            state: TaskState::Running,
            run: 1,
            params: serde_json::value::RawValue::from_string("{\"a\":1}".into()).ok(),
            result: None,
            error: String::new(),
            submitted_at: StoredTime::default(),
            completed_at: None,
        }
    }

    #[test]
    fn record_is_of_one_execution() {
        type Change = fn(&mut TaskRow);
        let params = |text: &str| serde_json::value::RawValue::from_string(text.into()).ok();
        let changes: [Change; 7] = [
            |row| row.id = "0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71a5".into(),
            |row| row.task_type = "snapshot-upload-once".into(),
            |row| row.run = 2,
            |row| row.params = None,
            |row| row.params = serde_json::value::RawValue::from_string("{\"a\": 1}".into()).ok(),
            |row| row.submitted_at = StoredTime::parse("2026-05-18T10:00:05Z").unwrap(),
            // The same text, split elsewhere.
            |row| (row.id, row.task_type) = (format!("{}c", row.id), "onfig-patch".into()),
        ];
        let accepted = RecordName::of(&row());
        for (index, change) in changes.into_iter().enumerate() {
            let mut other = row();
            change(&mut other);
            assert_ne!(RecordName::of(&other), accepted, "{index}");
        }
        let empty = |params| RecordName::of(&TaskRow { params, ..row() });
        assert_eq!(empty(params("{}")), empty(None), "the ledger stores both in the same way");
        assert_eq!(empty(params("null")), empty(None));
        let outcome = TaskRow { result: params("1"), error: "no".into(), state: TaskState::Failed, ..row() };
        assert_eq!(RecordName::of(&outcome), accepted);
    }

    #[test]
    fn stale_records_are_removed_at_start() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (RecordName::of(&row()), RecordName::of(&TaskRow { run: 2, ..row() }));
        let tasks = AcceptedTasks::open(Some(dir.path())).unwrap();
        tasks.add(&one);
        tasks.add(&other);
        let tasks = AcceptedTasks::open(Some(dir.path())).unwrap();
        assert!(tasks.contains(&one) && tasks.contains(&other));
        tasks.retain(&[one.clone()].into()).unwrap();
        assert!(tasks.contains(&one) && !tasks.contains(&other));
        tasks.remove(&one);
        tasks.remove(&one);
        assert!(!tasks.contains(&one));
        assert!(AcceptedTasks::open(None).unwrap().contains(&one), "without a directory every task counts");
        assert!(AcceptedTasks::open(Some(Path::new("/proc/none"))).is_err());
    }
}
