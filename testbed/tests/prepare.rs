//! What `make test` and `make demo` say to a machine that cannot run them: one line with the cure, exit code 2, and
//! nothing changed. The real script runs; what differs is the machine it sees.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic as tests may"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A machine with the tools it is given, in front of the system's own.
struct Machine {
    folder: TempDir,
}

impl Machine {
    /// A machine that lacks nothing.
    fn good() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        fs::set_permissions(machine.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        machine.tool("cargo", "echo 'cargo 1.95.0 (f2d3ce0bd 2026-03-21)'").tool("go", "echo go1.26.8")
    }

    /// Adds or replaces a tool.
    fn tool(self, name: &str, script: &str) -> Self {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn without(self, name: &str) -> Self {
        fs::remove_file(self.folder.path().join(name)).unwrap();
        self
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache/outrigger")
    }

    /// Runs the script behind `wrapper`, which may be empty.
    fn prepare_behind(&self, wrapper: &[&str], args: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/prepare");
        // Readable for who is not root, wherever the clone lies.
        let copy = self.folder.path().join("prepare");
        fs::copy(script, &copy).unwrap();
        let mut line: Vec<&str> = wrapper.to_vec();
        let copy = copy.display().to_string();
        line.extend(["bash", copy.as_str()]);
        line.extend(args);
        Command::new(line[0])
            .args(&line[1..])
            .env_clear()
            .env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.folder.path().display()))
            .env("OUTRIGGER_CACHE", self.cache())
            .env("CARGO_TARGET_DIR", self.folder.path())
            .env("TMPDIR", self.folder.path())
            .current_dir("/")
            .output()
            .unwrap()
    }

    /// Runs the script and returns its one line of refusal.
    fn refusal_behind(&self, wrapper: &[&str]) -> String {
        let output = self.prepare_behind(wrapper, &[]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert_eq!(errors.lines().count(), 1, "more than one line:\n{errors}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
        assert!(!self.cache().exists(), "something was written before the refusal");
        errors.trim().to_owned()
    }

    fn refusal(&self) -> String {
        self.refusal_behind(&["env"])
    }
}

/// A shell in mount namespace of its own, where `setup` can change what the script sees of this machine.
fn behind_mounts(setup: &str) -> [String; 5] {
    let script = format!("{setup}\nexec \"$@\"");
    ["unshare".into(), "--mount".into(), "sh".into(), "-ec".into(), script]
}

#[test]
fn a_good_machine_is_accepted_in_silence() {
    let output = Machine::good().prepare_behind(&["env"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn without_cargo() {
    let said = Machine::good().without("cargo").refusal();
    assert!(said.starts_with("outrigger: cargo is not in PATH: install Rust 1.95.0"), "{said}");
}

#[test]
fn with_an_old_cargo() {
    let said = Machine::good().tool("cargo", "echo 'cargo 1.84.1 (66221abde 2024-11-19)'").refusal();
    assert_eq!(said, "outrigger: cargo is 1.84.1 and 1.95.0 is needed: rustup toolchain install 1.95.0");
}

#[test]
fn with_a_cargo_that_does_not_run() {
    let said = Machine::good().tool("cargo", "echo no default toolchain >&2; exit 1").refusal();
    assert!(said.starts_with("outrigger: cargo does not run: is Rust 1.95.0 installed?"), "{said}");
}

#[test]
fn without_go() {
    let said = Machine::good().without("go").refusal();
    assert!(said.starts_with("outrigger: go is not in PATH: install Go 1.26.0 or newer"), "{said}");
}

#[test]
fn with_an_old_go() {
    let said = Machine::good().tool("go", "echo go1.19.8").refusal();
    assert!(said.starts_with("outrigger: go is 1.19.8 and 1.26.0 or newer is needed"), "{said}");
}

#[test]
fn without_root() {
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let said = Machine::good().refusal_behind(&nobody);
    assert!(said.starts_with("outrigger: root is needed"), "{said}");
    let quick = Machine::good().without("go").prepare_behind(&nobody, &["--rust-only"]);
    assert_eq!(quick.status.code(), Some(0), "make check needs neither root nor Go: {quick:?}");
}

#[test]
fn on_another_system() {
    let machine = Machine::good();
    let other = machine.folder.path().join("os-release");
    fs::write(&other, "ID=fedora\nVERSION_ID=43\n").unwrap();
    let setup = format!("mount --bind {} \"$(readlink -f /etc/os-release)\"", other.display());
    let wrapper = behind_mounts(&setup);
    let mut words: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    words.push("sh");
    let said = machine.refusal_behind(&words);
    assert!(said.starts_with("outrigger: this is fedora 43, and Debian 12 or newer is needed"), "{said}");
}

#[test]
fn with_too_little_disk() {
    let machine = Machine::good();
    let small = machine.folder.path().join("cache");
    fs::create_dir(&small).unwrap();
    let wrapper = behind_mounts(&format!("mount -t tmpfs -o size=64m none {}", small.display()));
    let mut words: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    words.push("sh");
    let said = machine.refusal_behind(&words);
    assert!(
        said.contains("GiB free and") && said.contains("set OUTRIGGER_CACHE to a folder on a larger disk"),
        "{said}"
    );
}

#[test]
fn when_packages_cannot_be_installed() {
    let machine = Machine::good()
        .tool("dpkg-query", "case \"$*\" in *runc) echo not-installed;; *) echo installed;; esac")
        .tool("apt-get", "echo 'E: Unable to locate package runc'; exit 100");
    let output = machine.prepare_behind(&["env"], &[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("E: Unable to locate package runc"), "{errors}");
    assert!(errors.contains("`apt-get install runc` by hand, then run this again"), "{errors}");
}
