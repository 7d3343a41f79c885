//! The list of snapshots, a LevelDB of seid's: one record for each, named by height and format. An archive holds the whole list of
//! the node that made it, and one snapshot. seid takes the newest of the list, and waits for ever when that is not there.

use std::io;
use std::path::Path;

use rusty_leveldb::{DB, LdbIterator, Options, Status};

/// What the name of a record begins with; height and format follow, the first byte first.
const RECORD: u8 = 1;

/// Strikes from a list every snapshot that is not in the folder beside it, and says how many these were. A list that LevelDB cannot
/// read is of another database that seid was built with, and stays as it is.
pub(super) fn strike_missing(list: &Path, snapshots: &Path) -> io::Result<usize> {
    if !list.join("CURRENT").is_file() {
        return Ok(0);
    }
    let failed = |error: Status| io::Error::other(format!("the list of snapshots: {error}"));
    let options = Options { create_if_missing: false, ..Options::default() };
    let mut list = match DB::open(list, options) {
        Ok(list) => list,
        Err(error) => {
            tracing::warn!(%error, "the list of snapshots cannot be read, and may name some that are not there");
            return Ok(0);
        }
    };
    let mut missing = Vec::new();
    let mut records = list.new_iter().map_err(failed)?;
    while let Some((name, _)) = records.next() {
        if folder_of(&name).is_some_and(|folder| !snapshots.join(folder).is_dir()) {
            missing.push(name);
        }
    }
    drop(records);
    for name in &missing {
        list.delete(name).map_err(failed)?;
    }
    list.flush().and_then(|()| list.close()).map_err(failed)?;
    Ok(missing.len())
}

/// The folder of the snapshot that a record is about.
fn folder_of(name: &[u8]) -> Option<String> {
    let (height, format) = name.strip_prefix(&[RECORD])?.split_first_chunk::<8>()?;
    let format: &[u8; 4] = format.try_into().ok()?;
    Some(format!("{}/{}", u64::from_be_bytes(*height), u32::from_be_bytes(*format)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn record(height: u64) -> Vec<u8> {
        [&[RECORD][..], &height.to_be_bytes(), &1_u32.to_be_bytes()].concat()
    }

    #[test]
    fn a_list_names_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("metadata.db");
        let mut all = DB::open(&list, Options::default()).unwrap();
        for height in [40, 60, 80] {
            all.put(&record(height), b"about it").unwrap();
        }
        all.put(b"something else", b"stays").unwrap();
        all.close().unwrap();
        drop(all);
        fs::create_dir_all(folder.path().join("60/1")).unwrap();
        assert_eq!(strike_missing(&list, folder.path()).unwrap(), 2);
        let mut left = DB::open(&list, Options::default()).unwrap();
        let mut names = left.new_iter().unwrap();
        let names: Vec<_> = std::iter::from_fn(|| names.next()).map(|(name, _)| name).collect();
        assert_eq!(names, [record(60), b"something else".to_vec()]);
    }

    #[test]
    fn a_list_that_is_none_stays() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("metadata.db");
        assert_eq!(strike_missing(&list, folder.path()).unwrap(), 0);
        fs::create_dir(&list).unwrap();
        fs::write(list.join("CURRENT"), "of another database").unwrap();
        assert_eq!(strike_missing(&list, folder.path()).unwrap(), 0);
        assert_eq!(fs::read_to_string(list.join("CURRENT")).unwrap(), "of another database");
    }
}
