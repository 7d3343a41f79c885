//! Where logs are kept, and their ends.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How much of a log is looked at for its end.
const TAIL_BYTES: u64 = 64 * 1024;

/// The folder for the logs of one test, empty: those of its last run are removed. Below the build folder, so that it stays after the
/// test and is found by who reads the failure.
#[must_use]
pub fn folder(suite: &str, test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/testbed").join(suite).join(test);
    // Missing is as good as emptied; and who opens a log in a folder that could not be made is told so.
    let _ = fs::remove_dir_all(&folder);
    let _ = fs::create_dir_all(&folder);
    folder
}

/// Every log below a folder, those of pods too. Links are not followed: nodes keep each pod's log under two names.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found.sort();
    found
}

/// What a program calls its reason for ending. Some print all of their flags behind it.
const REASONS: [&str; 2] = ["Error: ", "panic: "];

/// The last lines of a log, and the reason that a program gave before them; or why they cannot be read.
#[must_use]
pub fn tail(log: &Path, lines: usize) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            let (before, last) = all.split_at(all.len().saturating_sub(lines));
            let reason = before.iter().rfind(|line| REASONS.iter().any(|reason| line.contains(reason)));
            reason.into_iter().chain(last).copied().collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("({}: {error})", log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.log");
        let text: String = (0..10_000).map(|n| format!("line {n} {}\n", "x".repeat(20))).collect();
        fs::write(&log, text).unwrap();
        let tail = tail(&log, 2);
        assert_eq!(tail.lines().count(), 2);
        assert!(tail.contains("line 9998 ") && tail.contains("line 9999 "), "{tail}");
    }

    #[test]
    fn a_reason_is_shown_also_when_much_was_said_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.log");
        fs::write(&log, format!("begun\nError: no disk\n{}", "  --flag\n".repeat(100))).unwrap();
        assert_eq!(tail(&log, 2), "Error: no disk\n  --flag\n  --flag");
    }

    #[test]
    fn a_missing_log_says_so() {
        assert!(tail(Path::new("/nowhere/a.log"), 2).contains("/nowhere/a.log"));
    }
}
