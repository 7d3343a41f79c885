//! The cache of built parts, tested with the smallest Go module, the real compiler and a temporary cache.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn build(cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["build", "dns"]).env("OUTRIGGER_CACHE", cache).stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the directory that a successful build prints.
fn printed_folder(output: &Output) -> PathBuf {
    assert!(output.status.success(), "{}", stderr(output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    PathBuf::from(
        text.trim()
            .strip_prefix("testbed: dns is available in ")
            .unwrap_or_else(|| panic!("unexpected output {text:?}")),
    )
}

#[test]
fn concurrent_builds_share_one_result() {
    let cache = tempfile::tempdir().unwrap();
    let start = || build(cache.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (first, second) = (start(), start());
    let (first, second) = (first.wait_with_output().unwrap(), second.wait_with_output().unwrap());
    assert_eq!(printed_folder(&first), printed_folder(&second));
    let both = stderr(&first) + &stderr(&second);
    assert_eq!(both.matches("testbed: built dns in").count(), 1, "{both}");
    assert_eq!(both.matches("another process builds dns; waiting for it (usually").count(), 1, "{both}");
    let version = Command::new(printed_folder(&first).join("bin/coredns")).arg("-version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("CoreDNS-"), "{version:?}");
    let again = build(cache.path()).output().unwrap();
    assert_eq!(stderr(&again), "", "built part must be reused");
}

#[test]
fn killed_build_leaves_no_usable_result() {
    let cache = tempfile::tempdir().unwrap();
    let mut killed = build(cache.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let first = BufReader::new(killed.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(first.starts_with("testbed: building dns (once; usually 1 minute); its log is "), "{first}");
    killed.kill().unwrap();
    killed.wait().unwrap();

    let output = build(cache.path()).output().unwrap();
    assert!(printed_folder(&output).join("bin/coredns").is_file());
    assert!(stderr(&output).contains("testbed: built dns in"), "partial build was used");
    let drafts = std::fs::read_dir(cache.path())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains("draft"));
    assert_eq!(drafts.count(), 0, "drafts were not removed");
}

#[test]
fn failed_build_names_log_and_cause() {
    let cache = tempfile::tempdir().unwrap();
    let modules = tempfile::tempdir().unwrap();
    // Empty module cache and no proxy to download from.
    let output =
        build(cache.path()).env("GOMODCACHE", modules.path()).env("GOPROXY", "off").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("testbed: building dns failed; log: ") && text.contains("GOPROXY=off"), "{text}");
    let left: Vec<_> = std::fs::read_dir(cache.path())
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().join("bin").exists())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn incomplete_prebuilt_directory_is_rejected() {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["build", "kubernetes"])
        .env("OUTRIGGER_KUBERNETES_BIN", empty.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("has no etcd, kube-apiserver"), "{}", stderr(&output));
}
