//! Flags of the checker and of the controller.

use std::process::Command;

use testbed::harness::binaries;
use testbed::{Context, TestResult};

pub async fn wrong_flags_end_with_one_line(_: Context) -> TestResult {
    let socket = "--kms-sockets=unix:///var/run/kmsplugin/kms-1.sock";
    let good = ["--kms-call-timeout=5s", "--config-hash=h", "--pod-name=p", "--pod-namespace=n"];
    let with = |more: &[&'static str]| [&good[..], more].concat();
    let without = |flag: &str| -> Vec<&'static str> {
        let kept = good.into_iter().filter(|one| !one.starts_with(flag));
        kept.chain([socket]).collect()
    };
    for (args, code, said) in [
        (good.to_vec(), 2, "--kms-sockets"),
        (without("--kms-call-timeout"), 2, "--kms-call-timeout"),
        (without("--config-hash"), 2, "--config-hash"),
        (without("--pod-name="), 2, "--pod-name"),
        (without("--pod-namespace"), 2, "--pod-namespace"),
        ([without("--kms-call-timeout"), vec!["--kms-call-timeout=0s"]].concat(), 2, "is no duration"),
        ([without("--config-hash"), vec!["--config-hash="]].concat(), 1, "--config-hash is empty"),
        (with(&["--kms-sockets=/var/run/kmsplugin/kms-1.sock"]), 1, "is no plugin's socket"),
        (with(&["--kms-sockets=unix:///var/run/kmsplugin/kms-x.sock"]), 1, "is no plugin's socket"),
        (with(&["--kms-sockets=unix:///var/run/kmsplugin/kms-01.sock"]), 1, "no leading zeros"),
        (with(&["--kms-sockets=unix:///tmp/kms-1.sock"]), 1, "is no plugin's socket"),
        (with(&[socket, socket]), 1, "is there twice"),
    ] {
        let output = Command::new(binaries::path("outrigger")?).arg("kms-preflight").args(&args).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(said), "{args:?}: {text}");
    }
    for (args, said) in [
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
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(said), "{args:?}: {text}");
    }
    Ok(())
}
