//! Runs [`index`] in a child process of its own: the database comes from an archive, and a malformed one can make the LevelDB library
//! allocate without limit, panic or loop. The child has little memory and time, and none of the sidecar's environment.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use runtime::hardening;
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use super::index;

/// The name under which the sidecar starts its own program as the child.
const PROGRAM: &str = "outrigger-prune-snapshot-metadata";

/// The address space of the child. The database of a snapshot has a few KiB.
const MEMORY_LIMIT: u64 = 256 << 20;

/// The CPU seconds of the child.
const CPU_LIMIT: u64 = 60;

/// The longest part of the child's error output that is reported.
const MAX_ERROR: usize = 300;

/// Deletes the records of snapshots that are not in `snapshots` from `database`, and returns how many.
pub(super) fn prune(database: &Path, snapshots: &Path) -> io::Result<usize> {
    if !index::exists(database) {
        return Ok(0);
    }
    // By this path, a program that was replaced on disk starts as well.
    let output = Command::new("/proc/self/exe")
        .arg0(PROGRAM)
        .args([database, snapshots])
        .env_clear()
        .stdin(Stdio::null())
        .output()?;
    let errors: String = String::from_utf8_lossy(&output.stderr)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_ERROR)
        .collect();
    let pruned = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse::<usize>()
        .ok()
        .filter(|_| output.status.success());
    let Some(pruned) = pruned else {
        return Err(io::Error::other(format!(
            "archive rejected: its snapshot metadata is malformed; reading it ended with {}: {}",
            output.status,
            errors.trim()
        )));
    };
    if !errors.is_empty() {
        tracing::warn!(error = errors.trim(), "cannot open snapshot metadata; it may list missing snapshots");
    }
    Ok(pruned)
}

/// Runs the child, if this process is one: its arguments are the database and the snapshot directory.
pub fn run_child(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if args.next().is_none_or(|program| program != PROGRAM) {
        return None;
    }
    let (Some(database), Some(snapshots), None) = (args.next(), args.next(), args.next()) else {
        return Some(ExitCode::from(2));
    };
    match limit_resources()
        .and_then(|()| index::prune_missing(&PathBuf::from(database), &PathBuf::from(snapshots)))
    {
        Ok(index::Pruned { records, unreadable }) => {
            if let Some(error) = unreadable {
                eprintln!("{error}");
            }
            println!("{records}");
            Some(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("{error}");
            Some(ExitCode::FAILURE)
        }
    }
}

fn limit_resources() -> io::Result<()> {
    hardening::set_undumpable()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for (resource, limit) in [(Resource::As, MEMORY_LIMIT), (Resource::Cpu, CPU_LIMIT)] {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    }
    Ok(())
}
