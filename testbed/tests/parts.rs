//! The cache of built parts, with a real module (the smallest one), its real compiler and a cache of the test's own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic as tests may"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn build(cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["build", "dns"]).env("OUTRIGGER_CACHE", cache).stdin(Stdio::null());
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The folder that a successful build names.
fn folder(output: &Output) -> PathBuf {
    assert!(output.status.success(), "{}", errors(output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    PathBuf::from(said.trim().strip_prefix("testbed: dns is in ").unwrap_or_else(|| panic!("said {said:?}")))
}

#[test]
fn two_builds_at_once_do_not_disturb_each_other() {
    let cache = tempfile::tempdir().unwrap();
    let start = || build(cache.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (first, second) = (start(), start());
    let (first, second) = (first.wait_with_output().unwrap(), second.wait_with_output().unwrap());
    assert_eq!(folder(&first), folder(&second));
    let both = errors(&first) + &errors(&second);
    assert_eq!(both.matches("testbed: built dns in").count(), 1, "{both}");
    assert_eq!(both.matches("another process builds dns; waiting for it (usually").count(), 1, "{both}");
    let version = Command::new(folder(&first).join("bin/coredns")).arg("-version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("CoreDNS-"), "{version:?}");
    let again = build(cache.path()).output().unwrap();
    assert_eq!(errors(&again), "", "a built part is found, not built");
}

#[test]
fn a_killed_build_leaves_nothing_that_looks_whole() {
    let cache = tempfile::tempdir().unwrap();
    let mut killed = build(cache.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let first = BufReader::new(killed.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(first.starts_with("testbed: building dns (once; usually 1 minute); its log is "), "{first}");
    killed.kill().unwrap();
    killed.wait().unwrap();

    let output = build(cache.path()).output().unwrap();
    assert!(folder(&output).join("bin/coredns").is_file());
    assert!(errors(&output).contains("testbed: built dns in"), "the killed build was taken for a whole one");
    let drafts = std::fs::read_dir(cache.path())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains("draft"));
    assert_eq!(drafts.count(), 0, "drafts are left");
}

#[test]
fn a_build_that_fails_says_where_and_why() {
    let cache = tempfile::tempdir().unwrap();
    let modules = tempfile::tempdir().unwrap();
    // No module in the cache, and nowhere to get one.
    let output =
        build(cache.path()).env("GOMODCACHE", modules.path()).env("GOPROXY", "off").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert!(said.contains("testbed: building dns failed; see ") && said.contains("GOPROXY=off"), "{said}");
    let left: Vec<_> = std::fs::read_dir(cache.path())
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().join("bin").exists())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn existing_programs_are_used_instead_or_refused_by_name() {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["build", "kubernetes"])
        .env("OUTRIGGER_KUBERNETES_BIN", empty.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("has no etcd, kube-apiserver"), "{}", errors(&output));
}
