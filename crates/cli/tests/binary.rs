//! Tests of the built binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

use std::process::{Command, Output, Stdio};

fn outrigger(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

#[test]
fn version_prints_crate_version() {
    let output = outrigger(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), format!("outrigger {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let output = outrigger(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for part in ["Usage: outrigger", "completion", "Examples:", "Exit codes:"] {
        assert!(help.contains(part), "no {part:?} in:\n{help}");
    }
}

#[test]
fn invalid_usage_exits_with_2_and_names_the_argument() {
    for (args, argument) in
        [(&["frobnicate"][..], "frobnicate"), (&["completion", "dos"], "dos"), (&["--colour"], "--colour")]
    {
        let output = outrigger(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?} wrote to standard output");
        assert!(text(&output.stderr).contains(argument), "{args:?}: {}", text(&output.stderr));
    }
    assert_eq!(outrigger(&[]).status.code(), Some(2), "a missing subcommand is invalid usage");
}

#[test]
fn bash_completion_completes_subcommands() {
    let script = "source <(\"$0\" completion bash)\nCOMP_WORDS=(outrigger comp) COMP_CWORD=1\n_outrigger outrigger comp outrigger\necho \"${COMPREPLY[*]}\"";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_outrigger")])
        .output()
        .expect("bash starts");
    assert_eq!(text(&output.stdout), "completion\n", "{}", text(&output.stderr));
}

#[test]
fn every_shell_has_a_completion_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = outrigger(&["completion", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(text(&output.stdout).contains("completion"), "{shell}");
    }
}

#[test]
fn closed_pipe_exits_successfully() {
    let script = "set -o pipefail; \"$0\" completion zsh | true; echo $?";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_outrigger")])
        .output()
        .expect("bash starts");
    assert_eq!(text(&output.stdout), "0\n", "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn binary_is_statically_linked() {
    let ldd = Command::new("ldd").arg(env!("CARGO_BIN_EXE_outrigger")).output().expect("ldd starts");
    let output = text(&ldd.stdout) + &text(&ldd.stderr);
    assert!(output.contains("statically linked") || output.contains("not a dynamic executable"), "{output}");
}
