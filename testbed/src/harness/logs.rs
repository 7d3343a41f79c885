//! Log directories, and the tails of logs.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How much of a log is read for its tail.
const TAIL_BYTES: u64 = 64 * 1024;

/// Creates an empty log directory for one test, in the target directory, where it stays for debugging. Logs of the
/// previous run are removed.
#[must_use]
pub fn test_dir(suite: &str, test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/testbed").join(suite).join(test);
    // The directory may not exist yet; if it cannot be created, opening a log in it reports why.
    let _ = fs::remove_dir_all(&folder);
    let _ = fs::create_dir_all(&folder);
    folder
}

/// Returns all logs below a directory, including pod logs. Symbolic links are skipped, because nodes link each pod
/// log under a second name.
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

/// Markers of a fatal error. Some programs print all their flags after it.
const FATAL_MARKERS: [&str; 2] = ["Error: ", "panic: "];

/// Returns the last lines of a log, preceded by the fatal error if it is further up; or why the log cannot be read.
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
            let fatal = before.iter().rfind(|line| FATAL_MARKERS.iter().any(|marker| line.contains(marker)));
            fatal.into_iter().chain(last).copied().collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("({}: {error})", log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_returns_the_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.log");
        let text: String = (0..10_000).map(|n| format!("line {n} {}\n", "x".repeat(20))).collect();
        fs::write(&log, text).unwrap();
        let tail = tail(&log, 2);
        assert_eq!(tail.lines().count(), 2);
        assert!(tail.contains("line 9998 ") && tail.contains("line 9999 "), "{tail}");
    }

    #[test]
    fn tail_includes_an_earlier_fatal_error() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.log");
        fs::write(&log, format!("started\nError: no disk\n{}", "  --flag\n".repeat(100))).unwrap();
        assert_eq!(tail(&log, 2), "Error: no disk\n  --flag\n  --flag");
    }

    #[test]
    fn tail_of_missing_log_names_the_path() {
        assert!(tail(Path::new("/nowhere/a.log"), 2).contains("/nowhere/a.log"));
    }
}
