//! Kills a process before one of its writes: what it leaves on disk is what a crash at that moment leaves. The process is watched
//! from outside (`ptrace`), so nothing is built into it; and by a process of its own, since whoever started the watched one
//! would else take its stops for its end.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::cluster::site::Site;
use crate::error::{Error, IoContext, Result};
use crate::harness::binaries;
use crate::harness::wait;
use crate::process::{Process, Program};

/// What the watcher says once it watches.
const WATCHING: &str = "watching";

/// How long that may take.
const WATCHES_WITHIN: Duration = Duration::from_secs(30);

/// A watcher; it ends with what it watches.
#[derive(Debug)]
pub struct Watcher {
    process: Process,
}

impl Watcher {
    /// Watches what a process does to files below these folders, from now on; kills it before the write of this number, from 1.
    pub async fn start(site: &Site, name: &str, pid: u32, fatal: usize, folders: &[&Path]) -> Result<Self> {
        let program = Program::new(name, binaries::path("testbed-writes")?);
        let process = program.arg(pid.to_string()).arg(fatal.to_string()).args(folders).start(site)?;
        let watcher = Self { process };
        wait::until("a watcher of writes", WATCHES_WITHIN, || async {
            match watcher.said().iter().any(|line| line == WATCHING) {
                true => Ok(()),
                false => Err(watcher
                    .process
                    .check_alive()
                    .err()
                    .map_or("it is silent".into(), |error| error.to_string())),
            }
        })
        .await?;
        Ok(watcher)
    }

    /// The writes so far, the fatal one included.
    #[must_use]
    pub fn writes(&self) -> Vec<String> {
        self.said().into_iter().filter(|line| line != WATCHING).collect()
    }

    fn said(&self) -> Vec<String> {
        let text = fs::read_to_string(self.process.log()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It holds nothing else, and there is one for every point of a matrix.
        let _ = fs::remove_file(self.process.log());
    }
}

/// The watcher's life: `testbed-writes PID FATAL FOLDER...`. Every write is one line.
pub fn run(args: impl Iterator<Item = String>) -> Result<()> {
    let args: Vec<String> = args.collect();
    let usage = || Error::Refused("usage: testbed-writes PID FATAL FOLDER...".into());
    let [pid, fatal, folders @ ..] = args.as_slice() else { return Err(usage()) };
    let process = Pid::from_raw(pid.parse().map_err(|_| usage())?);
    let fatal: usize = fatal.parse().map_err(|_| usage())?;
    let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    seize(process)?;
    println!("{WATCHING}");
    let mut writes = 0;
    loop {
        let stopped = match waitpid(None, Some(WaitPidFlag::__WALL)) {
            Ok(WaitStatus::PtraceSyscall(thread)) => {
                if let Some(what) = entered(process, thread, &folders) {
                    writes += 1;
                    println!("{what}");
                    if writes == fatal {
                        // It stands before the call, which is never made.
                        let _ = kill(process, Signal::SIGKILL);
                        continue;
                    }
                }
                Some((thread, None))
            }
            Ok(WaitStatus::PtraceEvent(thread, ..)) => Some((thread, None)),
            Ok(WaitStatus::Stopped(thread, signal)) => Some((thread, Some(signal))),
            Ok(_) | Err(Errno::EINTR) => None,
            // Nobody is left.
            Err(_) => return Ok(()),
        };
        if let Some((thread, signal)) = stopped {
            // It may have been killed meanwhile.
            let _ = ptrace::syscall(thread, signal);
        }
    }
}

/// Takes hold of all threads; those that they start are held from their first step.
fn seize(process: Pid) -> Result<()> {
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    let mut held = BTreeSet::new();
    loop {
        let folder = format!("/proc/{process}/task");
        let threads = fs::read_dir(&folder).context(|| format!("reading {folder}"))?;
        let threads = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let new: Vec<i32> = threads.filter(|thread| !held.contains(thread)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for thread in new {
            held.insert(thread);
            // One that another has just started is held already; one that has just ended needs not be.
            match ptrace::seize(Pid::from_raw(thread), options) {
                Ok(()) => {
                    let _ = ptrace::interrupt(Pid::from_raw(thread));
                }
                Err(Errno::EPERM | Errno::ESRCH) if thread != process.as_raw() => {}
                Err(error) => return Err(Error::Refused(format!("watching process {process}: {error}"))),
            }
        }
    }
}

/// The write that a thread is about to make, if it is one of these files.
#[cfg(target_arch = "x86_64")]
fn entered(process: Pid, thread: Pid, folders: &[PathBuf]) -> Option<String> {
    let registers = ptrace::getregs(thread).ok()?;
    // What a call that was not made yet returns.
    if registers.rax.cast_signed() != -i64::from(nix::libc::ENOSYS) {
        return None;
    }
    let file = |number: u64| {
        let path = fs::read_link(format!("/proc/{process}/fd/{number}")).ok()?;
        folders.iter().any(|folder| path.starts_with(folder)).then(|| path.display().to_string())
    };
    let creates = |flags: u64| flags & u64::from(nix::libc::O_CREAT.unsigned_abs()) != 0;
    let (name, first) = (registers.orig_rax.cast_signed(), registers.rdi);
    use nix::libc as call;
    match name {
        call::SYS_write | call::SYS_pwrite64 | call::SYS_writev | call::SYS_pwritev | call::SYS_pwritev2 => {
            file(first).map(|path| format!("write {path}"))
        }
        call::SYS_fsync | call::SYS_fdatasync | call::SYS_syncfs => {
            file(first).map(|path| format!("sync {path}"))
        }
        call::SYS_ftruncate | call::SYS_fallocate => file(first).map(|path| format!("truncate {path}")),
        call::SYS_copy_file_range => file(registers.rdx).map(|path| format!("copy {path}")),
        call::SYS_openat if creates(registers.rdx) => Some("create".into()),
        call::SYS_open if creates(registers.rsi) => Some("create".into()),
        call::SYS_rename | call::SYS_renameat | call::SYS_renameat2 => Some("rename".into()),
        call::SYS_link | call::SYS_linkat | call::SYS_symlink | call::SYS_symlinkat => Some("link".into()),
        call::SYS_unlink | call::SYS_unlinkat | call::SYS_rmdir => Some("remove".into()),
        call::SYS_mkdir | call::SYS_mkdirat => Some("make a folder".into()),
        _ => None,
    }
}
