//! Snapshots: heights on disk and object keys.

pub(super) mod archive_upload;
mod index;
pub(super) mod pruner;
pub(super) mod restore;
pub(super) mod upload;
pub(super) mod upload_once;

use std::path::Path;

/// Returns the heights of the snapshots in a directory in ascending order.
pub(super) fn heights(snapshots: &Path) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(snapshots) else { return Vec::new() };
    let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut heights: Vec<u64> = dirs.filter_map(|entry| parse_height(entry.file_name().to_str()?)).collect();
    heights.sort_unstable();
    heights
}

/// Returns the key prefix of a chain's snapshots.
fn prefix(chain: &str) -> String {
    format!("{chain}/state-sync/")
}

/// Parses the height from the key of a snapshot object.
fn height_of(key: &str, prefix: &str) -> Option<u64> {
    parse_height(key.strip_prefix(prefix)?.strip_suffix(".tar.gz")?)
}

/// Parses a number that consists of digits only.
fn parse_height(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Returns the newest snapshot at or below the target height; target 0 means no limit.
fn newest_at_or_below<'a>(
    keys: impl Iterator<Item = &'a String>,
    prefix: &str,
    target: u64,
) -> Option<(u64, String)> {
    let heights = keys.filter_map(|key| Some((height_of(key, prefix)?, key.clone())));
    heights.filter(|(height, _)| target == 0 || *height <= target).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_snapshot_at_or_below_target_is_chosen() {
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
        let chosen =
            |target| newest_at_or_below(keys.iter(), "c/state-sync/", target).map(|(height, _)| height);
        assert_eq!((chosen(0), chosen(99), chosen(20), chosen(8)), (Some(100), Some(20), Some(20), None));
    }
}
