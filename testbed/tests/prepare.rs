//! `scripts/prepare`, which `make test` and `make demo` run first: an unsuitable machine gets one line with the fix and
//! exit code 2, and nothing is changed.
//!
//! The real script runs on a fake machine: its PATH is a temporary directory with fakes for what is under test and links
//! to the few tools the script uses. What is installed on this machine makes no difference.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The tools that the script uses as they are. Anything else must be a fake, see [`Machine::good`].
const REAL_TOOLS: [&str; 8] = ["bash", "cut", "dirname", "head", "mktemp", "sort", "tail", "tr"];

/// Where tools of this machine are searched, independently of its PATH.
const TOOL_DIRS: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

const DEBIAN: &str = "ID=debian\nVERSION_ID=12\n";

/// Returns the absolute path of a tool of this machine.
fn real_tool(name: &str) -> PathBuf {
    let candidates = TOOL_DIRS.iter().map(|dir| Path::new(dir).join(name));
    candidates.into_iter().find(|path| path.is_file()).unwrap_or_else(|| panic!("{name} is not installed"))
}

/// A fake machine with exactly the tools it is given.
struct Machine {
    dir: TempDir,
}

impl Machine {
    /// A machine that meets all requirements.
    fn good() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        // Readable for other users than root, too.
        fs::set_permissions(machine.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(machine.bin()).unwrap();
        let machine = REAL_TOOLS.into_iter().fold(machine, Machine::link);
        machine
            .os_release(DEBIAN)
            .tool("cargo", "echo 'cargo 1.95.0 (f2d3ce0bd 2026-03-21)'")
            .tool("go", "echo go1.26.8")
            .tool("id", "echo 0")
            .tool("df", "echo Avail; echo '  100'")
            .tool("dpkg-query", "echo installed")
            .tool("apt-get", "echo 'apt-get must not run' >&2; exit 1")
    }

    /// Adds or replaces a tool by a fake.
    fn tool(self, name: &str, script: &str) -> Self {
        let path = self.bin().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// Adds or replaces a tool by the real one.
    fn link(self, name: &str) -> Self {
        let path = self.bin().join(name);
        if path.exists() {
            fs::remove_file(&path).unwrap();
        }
        symlink(real_tool(name), path).unwrap();
        self
    }

    fn without(self, name: &str) -> Self {
        fs::remove_file(self.bin().join(name)).unwrap();
        self
    }

    /// Sets the operating system.
    fn os_release(self, text: &str) -> Self {
        fs::write(self.dir.path().join("os-release"), text).unwrap();
        self
    }

    fn bin(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache/outrigger")
    }

    /// Copies the script to where every user can read it, with the path of os-release replaced.
    fn script(&self) -> PathBuf {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/prepare");
        let text = fs::read_to_string(script).unwrap();
        assert!(text.contains("/etc/os-release"), "the script no longer reads /etc/os-release");
        let os_release = self.dir.path().join("os-release").display().to_string();
        let copy = self.dir.path().join("prepare");
        fs::write(&copy, text.replace("/etc/os-release", &os_release)).unwrap();
        copy
    }

    /// Runs bash on the fake machine, as an argument of `wrapper` unless that is empty.
    fn bash(&self, wrapper: &[String], args: &[&str]) -> Output {
        let mut line = wrapper.to_vec();
        line.push(self.bin().join("bash").display().to_string());
        line.extend(args.iter().map(ToString::to_string));
        Command::new(&line[0])
            .args(&line[1..])
            .env_clear()
            .env("PATH", self.bin())
            .env("OUTRIGGER_CACHE", self.cache())
            .env("CARGO_TARGET_DIR", self.dir.path())
            .env("TMPDIR", self.dir.path())
            .current_dir("/")
            .output()
            .unwrap()
    }

    fn prepare(&self, wrapper: &[String], args: &[&str]) -> Output {
        let script = self.script().display().to_string();
        self.bash(wrapper, &[&[script.as_str()], args].concat())
    }

    /// Runs the script, which must reject the machine with one line; returns that line.
    fn rejection_in(&self, wrapper: &[String]) -> String {
        let output = self.prepare(wrapper, &[]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "more than one line:\n{stderr}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
        assert!(!self.cache().exists(), "something was written before the rejection");
        stderr.trim().to_owned()
    }

    fn rejection(&self) -> String {
        self.rejection_in(&[])
    }
}

fn wrapper(tool: &str, args: &[&str]) -> Vec<String> {
    let tool = real_tool(tool).display().to_string();
    std::iter::once(tool).chain(args.iter().map(ToString::to_string)).collect()
}

/// Runs a command as a user without privileges.
fn as_unprivileged_user() -> Vec<String> {
    wrapper("setpriv", &["--reuid=65534", "--regid=65534", "--clear-groups"])
}

/// Runs a command in its own mount namespace after `setup`.
fn in_mount_namespace(setup: &str) -> Vec<String> {
    wrapper("unshare", &["--mount", "/bin/sh", "-ec", &format!("{setup}\nexec \"$@\""), "sh"])
}

#[test]
fn good_machine_is_accepted_silently() {
    let output = Machine::good().prepare(&[], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn tools_of_this_machine_are_not_visible() {
    let machine = Machine::good().without("cargo");
    for name in ["cargo", "cat", "grep", "ls", "sh"] {
        let found = machine.bash(&[], &["-c", &format!("command -v {name}")]);
        assert_eq!((found.status.code(), found.stdout), (Some(1), Vec::new()), "{name} is visible");
    }
}

#[test]
fn missing_cargo_is_rejected() {
    let line = Machine::good().without("cargo").rejection();
    assert!(line.starts_with("outrigger: cargo is not in PATH: install Rust 1.95.0"), "{line}");
}

#[test]
fn old_cargo_is_rejected() {
    let line = Machine::good().tool("cargo", "echo 'cargo 1.84.1 (66221abde 2024-11-19)'").rejection();
    assert_eq!(line, "outrigger: cargo is 1.84.1, 1.95.0 is required: rustup toolchain install 1.95.0");
}

#[test]
fn failing_cargo_is_rejected() {
    let line = Machine::good().tool("cargo", "echo no default toolchain >&2; exit 1").rejection();
    assert!(line.starts_with("outrigger: cargo does not run: is Rust 1.95.0 installed?"), "{line}");
}

#[test]
fn missing_go_is_rejected() {
    let line = Machine::good().without("go").rejection();
    assert!(line.starts_with("outrigger: go is not in PATH: install Go 1.26.0 or newer"), "{line}");
}

#[test]
fn old_go_is_rejected() {
    let line = Machine::good().tool("go", "echo go1.19.8").rejection();
    assert!(line.starts_with("outrigger: go is 1.19.8, 1.26.0 or newer is required"), "{line}");
}

#[test]
fn unprivileged_user_is_rejected() {
    let line = Machine::good().link("id").rejection_in(&as_unprivileged_user());
    assert!(line.starts_with("outrigger: root is required"), "{line}");
    let machine = Machine::good().link("id").without("go");
    let output = machine.prepare(&as_unprivileged_user(), &["--rust-only"]);
    assert_eq!(output.status.code(), Some(0), "make check needs neither root nor Go: {output:?}");
}

#[test]
fn other_operating_system_is_rejected() {
    let line = Machine::good().os_release("ID=fedora\nVERSION_ID=43\n").rejection();
    assert!(line.starts_with("outrigger: this is fedora 43, Debian 12 or newer is required"), "{line}");
}

#[test]
fn small_disk_is_rejected() {
    let machine = Machine::good().link("df");
    let cache = machine.dir.path().join("cache");
    fs::create_dir(&cache).unwrap();
    let mount = real_tool("mount");
    let setup = format!("{} -t tmpfs -o size=64m none {}", mount.display(), cache.display());
    let line = machine.rejection_in(&in_mount_namespace(&setup));
    assert!(
        line.contains("GiB free,") && line.contains("set OUTRIGGER_CACHE to a directory on a larger disk"),
        "{line}"
    );
}

#[test]
fn failed_package_installation_shows_log_and_fix() {
    let machine = Machine::good()
        .tool("dpkg-query", "case \"$*\" in *runc) echo not-installed;; *) echo installed;; esac")
        .tool("apt-get", "echo 'E: Unable to locate package runc'; exit 100");
    let output = machine.prepare(&[], &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("E: Unable to locate package runc"), "{stderr}");
    assert!(stderr.contains("fix `apt-get install runc`, then retry"), "{stderr}");
}
