//! The snapshot metadata database of seid: a LevelDB with one record per snapshot, keyed by height and format. An archive
//! contains the whole database of the node that created it but only one snapshot. seid picks the newest record and waits forever
//! if that snapshot is missing.

use std::io;
use std::path::Path;

use rusty_leveldb::{DB, LdbIterator, Options, Status};

/// Key prefix of snapshot records; big-endian height and format follow.
const SNAPSHOT_PREFIX: u8 = 1;

/// What was done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pruned {
    /// The number of deleted records.
    pub(super) records: usize,
    /// Why the database could not be opened.
    pub(super) unreadable: Option<String>,
}

/// Returns whether this is a LevelDB.
pub(super) fn exists(database: &Path) -> bool {
    database.join("CURRENT").is_file()
}

/// Deletes the records of snapshots that are not in `snapshots`. A database that LevelDB cannot open belongs to a seid built with
/// another backend and is left unchanged.
pub(super) fn prune_missing(database: &Path, snapshots: &Path) -> io::Result<Pruned> {
    if !exists(database) {
        return Ok(Pruned::default());
    }
    let failed = |error: Status| io::Error::other(format!("snapshot metadata: {error}"));
    let options = Options { create_if_missing: false, ..Options::default() };
    let mut database = match DB::open(database, options) {
        Ok(database) => database,
        Err(error) => return Ok(Pruned { records: 0, unreadable: Some(error.to_string()) }),
    };
    let mut missing = Vec::new();
    let mut records = database.new_iter().map_err(failed)?;
    while let Some((key, _)) = records.next() {
        if snapshot_dir(&key).is_some_and(|dir| !snapshots.join(dir).is_dir()) {
            missing.push(key);
        }
    }
    drop(records);
    for key in &missing {
        database.delete(key).map_err(failed)?;
    }
    database.flush().and_then(|()| database.close()).map_err(failed)?;
    Ok(Pruned { records: missing.len(), unreadable: None })
}

/// Returns the directory of the snapshot that a record describes, relative to the snapshot directory.
fn snapshot_dir(key: &[u8]) -> Option<String> {
    let (height, format) = key.strip_prefix(&[SNAPSHOT_PREFIX])?.split_first_chunk::<8>()?;
    let format: &[u8; 4] = format.try_into().ok()?;
    Some(format!("{}/{}", u64::from_be_bytes(*height), u32::from_be_bytes(*format)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn record(height: u64) -> Vec<u8> {
        [&[SNAPSHOT_PREFIX][..], &height.to_be_bytes(), &1_u32.to_be_bytes()].concat()
    }

    #[test]
    fn prune_keeps_only_records_of_existing_snapshots() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("metadata.db");
        let mut all = DB::open(&database, Options::default()).unwrap();
        for height in [40, 60, 80] {
            all.put(&record(height), b"metadata").unwrap();
        }
        all.put(b"other", b"kept").unwrap();
        all.close().unwrap();
        drop(all);
        fs::create_dir_all(dir.path().join("60/1")).unwrap();
        assert_eq!(prune_missing(&database, dir.path()).unwrap(), Pruned { records: 2, unreadable: None });
        let mut left = DB::open(&database, Options::default()).unwrap();
        let mut records = left.new_iter().unwrap();
        let keys: Vec<_> = std::iter::from_fn(|| records.next()).map(|(key, _)| key).collect();
        assert_eq!(keys, [record(60), b"other".to_vec()]);
    }

    #[test]
    fn unreadable_database_is_left_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("metadata.db");
        assert_eq!(prune_missing(&database, dir.path()).unwrap(), Pruned::default());
        fs::create_dir(&database).unwrap();
        fs::write(database.join("CURRENT"), "other backend").unwrap();
        let pruned = prune_missing(&database, dir.path()).unwrap();
        assert!(pruned.records == 0 && pruned.unreadable.is_some(), "{pruned:?}");
        assert_eq!(fs::read_to_string(database.join("CURRENT")).unwrap(), "other backend");
    }
}
