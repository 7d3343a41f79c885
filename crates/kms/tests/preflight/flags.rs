//! Validation of flags of the checker and the controller.

use std::process::Command;

use testbed::harness::binaries;
use testbed::{Context, TestResult};

pub async fn invalid_flags_are_rejected(_: Context) -> TestResult {
    let socket = "--kms-sockets=unix:///var/run/kmsplugin/kms-1.sock";
    let good = ["--kms-call-timeout=5s", "--config-hash=h", "--pod-name=p", "--pod-namespace=n"];
    let with = |more: &[&'static str]| [&good[..], more].concat();
    let without = |flag: &str| -> Vec<&'static str> {
        let others = good.into_iter().filter(|one| !one.starts_with(flag));
        others.chain([socket]).collect()
    };
    for (args, code, expected) in [
        (good.to_vec(), 2, "--kms-sockets"),
        (without("--kms-call-timeout"), 2, "--kms-call-timeout"),
        (without("--config-hash"), 2, "--config-hash"),
        (without("--pod-name="), 2, "--pod-name"),
        (without("--pod-namespace"), 2, "--pod-namespace"),
        ([without("--kms-call-timeout"), vec!["--kms-call-timeout=0s"]].concat(), 2, "invalid duration"),
        (
            [without("--config-hash"), vec!["--config-hash="]].concat(),
            1,
            "invalid --config-hash: must not be empty",
        ),
        (
            with(&["--kms-sockets=/var/run/kmsplugin/kms-1.sock"]),
            1,
            "expected unix:///var/run/kmsplugin/kms-N.sock",
        ),
        (
            with(&["--kms-sockets=unix:///var/run/kmsplugin/kms-x.sock"]),
            1,
            "expected unix:///var/run/kmsplugin/kms-N.sock",
        ),
        (with(&["--kms-sockets=unix:///var/run/kmsplugin/kms-01.sock"]), 1, "no leading zeros"),
        (with(&["--kms-sockets=unix:///tmp/kms-1.sock"]), 1, "expected unix:///var/run/kmsplugin/kms-N.sock"),
        (with(&[socket, socket]), 1, "is listed twice"),
    ] {
        let output = Command::new(binaries::path("outrigger")?).arg("kms-preflight").args(&args).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
    for (args, expected) in [
        (&["--image=i"][..], "--namespace"),
        (&["--namespace=n"], "--image"),
        (
            &["--namespace=n", "--image=i", "--target=Pod"],
            "KubeAPIServer, OpenShiftAPIServer or Authentication",
        ),
        (&["--namespace=n", "--image=i", "--kms-call-timeout=5"], "--kms-call-timeout"),
    ] {
        let mut command = Command::new(binaries::path("outrigger")?);
        let output = command.arg("kms-preflight-controller").args(args).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
    Ok(())
}
