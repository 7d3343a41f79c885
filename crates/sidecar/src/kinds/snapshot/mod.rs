//! Snapshots: which there are on the node, and what their objects are called.

mod index;
pub(super) mod restore;
pub(super) mod round;
pub(super) mod upload;
pub(super) mod upload_once;

use std::path::Path;

/// The heights of the snapshots in a folder, the lowest first.
pub(super) fn heights(snapshots: &Path) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(snapshots) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut heights: Vec<u64> = folders.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    heights.sort_unstable();
    heights
}

/// Where a chain's snapshots are in a bucket.
fn prefix(chain: &str) -> String {
    format!("{chain}/state-sync/")
}

/// The height that an object is the snapshot of: nothing else in its key counts.
fn height_of(key: &str, prefix: &str) -> Option<u64> {
    number(key.strip_prefix(prefix)?.strip_suffix(".tar.gz")?)
}

/// Digits and nothing else.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The newest snapshot that is not above a height, 0 for any.
fn choose<'a>(keys: impl Iterator<Item = &'a String>, prefix: &str, target: u64) -> Option<(u64, String)> {
    let heights = keys.filter_map(|key| Some((height_of(key, prefix)?, key.clone())));
    heights.filter(|(height, _)| target == 0 || *height <= target).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_snapshot_that_is_not_above_the_target_is_chosen() {
        let keys = [
            "c/state-sync/9.tar.gz",
            "c/state-sync/100.tar.gz",
            "c/state-sync/20.tar.gz",
            "c/state-sync/latest.txt",
            "c/state-sync/us-east-2_999.tar.gz",
            "c/state-sync/old/500.tar.gz",
            "d/state-sync/700.tar.gz",
            "c/state-sync/.tar.gz",
        ]
        .map(str::to_owned);
        let chosen = |target| choose(keys.iter(), "c/state-sync/", target).map(|(height, _)| height);
        assert_eq!((chosen(0), chosen(99), chosen(20), chosen(8)), (Some(100), Some(20), Some(20), None));
    }
}
