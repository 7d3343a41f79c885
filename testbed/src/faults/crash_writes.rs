//! Kills a process right before one of its file system writes, so that the disk is left as a crash at that point
//! leaves it. The process is traced from outside with `ptrace`, so it needs no instrumentation. A separate tracer
//! process is used, because the parent of the traced process would mistake ptrace stops for its exit.

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

/// Printed by the tracer once it is attached.
const ATTACHED: &str = "attached";

/// Time allowed for attaching.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(30);

/// A running tracer; it exits with the traced process.
#[derive(Debug)]
pub struct WriteTracer {
    process: Process,
}

impl WriteTracer {
    /// Traces the writes of a process to files below these directories, and kills it before the write number
    /// `fatal`, starting at 1.
    pub async fn start(site: &Site, name: &str, pid: u32, fatal: usize, folders: &[&Path]) -> Result<Self> {
        let program = Program::new(name, binaries::path("testbed-writes")?);
        let process = program.arg(pid.to_string()).arg(fatal.to_string()).args(folders).start(site)?;
        let tracer = Self { process };
        wait::until("attached write tracer", ATTACH_TIMEOUT, || async {
            match tracer.output_lines().iter().any(|line| line == ATTACHED) {
                true => Ok(()),
                false => Err(tracer
                    .process
                    .check_alive()
                    .err()
                    .map_or("no output".into(), |error| error.to_string())),
            }
        })
        .await?;
        Ok(tracer)
    }

    /// Returns the writes so far, including the fatal one.
    #[must_use]
    pub fn writes(&self) -> Vec<String> {
        self.output_lines().into_iter().filter(|line| line != ATTACHED).collect()
    }

    fn output_lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.process.log()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for WriteTracer {
    fn drop(&mut self) {
        // The log contains nothing else, and a crash matrix starts one tracer per crash point.
        let _ = fs::remove_file(self.process.log());
    }
}

/// Main function of the tracer: `testbed-writes PID FATAL FOLDER...`. Prints one line per write.
pub fn run(args: impl Iterator<Item = String>) -> Result<()> {
    let args: Vec<String> = args.collect();
    let usage = || Error::Other("usage: testbed-writes PID FATAL FOLDER...".into());
    let [pid, fatal, folders @ ..] = args.as_slice() else { return Err(usage()) };
    let process = Pid::from_raw(pid.parse().map_err(|_| usage())?);
    let fatal: usize = fatal.parse().map_err(|_| usage())?;
    let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    seize(process)?;
    println!("{ATTACHED}");
    let mut writes = 0;
    loop {
        let stopped = match waitpid(None, Some(WaitPidFlag::__WALL)) {
            Ok(WaitStatus::PtraceSyscall(thread)) => {
                if let Some(what) = entered_write(process, thread, &folders) {
                    writes += 1;
                    println!("{what}");
                    if writes == fatal {
                        // Stopped at syscall entry: the call is never executed.
                        let _ = kill(process, Signal::SIGKILL);
                        continue;
                    }
                }
                Some((thread, None))
            }
            Ok(WaitStatus::PtraceEvent(thread, ..)) => Some((thread, None)),
            Ok(WaitStatus::Stopped(thread, signal)) => Some((thread, Some(signal))),
            Ok(_) | Err(Errno::EINTR) => None,
            // No traced process is left.
            Err(_) => return Ok(()),
        };
        if let Some((thread, signal)) = stopped {
            // The thread may have been killed meanwhile.
            let _ = ptrace::syscall(thread, signal);
        }
    }
}

/// Attaches to all threads; threads they start are traced from their first instruction.
fn seize(process: Pid) -> Result<()> {
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    let mut attached = BTreeSet::new();
    loop {
        let folder = format!("/proc/{process}/task");
        let threads = fs::read_dir(&folder).context(|| format!("reading {folder}"))?;
        let threads = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let new: Vec<i32> = threads.filter(|thread| !attached.contains(thread)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for thread in new {
            attached.insert(thread);
            // EPERM: already traced, because its parent thread is. ESRCH: the thread has exited.
            match ptrace::seize(Pid::from_raw(thread), options) {
                Ok(()) => {
                    let _ = ptrace::interrupt(Pid::from_raw(thread));
                }
                Err(Errno::EPERM | Errno::ESRCH) if thread != process.as_raw() => {}
                Err(error) => return Err(Error::Other(format!("attaching to process {process}: {error}"))),
            }
        }
    }
}

/// Returns the write that a thread is about to execute, if it concerns one of the directories.
#[cfg(target_arch = "x86_64")]
fn entered_write(process: Pid, thread: Pid, folders: &[PathBuf]) -> Option<String> {
    let registers = ptrace::getregs(thread).ok()?;
    // Return value at syscall entry.
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
        call::SYS_mkdir | call::SYS_mkdirat => Some("create a directory".into()),
        _ => None,
    }
}
