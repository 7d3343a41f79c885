//! The page of documentation about tools for KMS plugins, made from the code.

use std::fmt::Write;

use api::kms::check::StepName;
use api::names::kms::preflight as names;
use clap::{Args, Command};

fn flags(page: &mut String, command: Command, about: &str) {
    let _ = write!(page, "\n## outrigger {}\n\n{about}\n", command.get_name());
    page.push_str(&testbed::harness::generated::settings(&command));
}

/// What a step of a check asks.
fn asks(step: StepName) -> &'static str {
    match step {
        StepName::Status => "Status answers in time, and says `ok`",
        StepName::Version => "its version is one that API servers accept",
        StepName::KeyId => "its key id has 1 to 1024 bytes",
        StepName::Encrypt => "Encrypt answers in time",
        StepName::Ciphertext => "the text is encrypted, and has 1 to 1024 bytes",
        StepName::SameKeyId => "Encrypt names the same key as Status",
        StepName::Annotations => "annotations are named by domains, and have at most 32 KiB",
        StepName::Decrypt => "Decrypt gives back what was encrypted",
    }
}

#[test]
fn the_page_of_tools_is_what_the_code_says() -> testbed::Result<()> {
    let mut page = String::from(
        "# Tools for KMS plugins\n\nGenerated from the code; a test compares. Exit codes of all: 0 done, 1 failed, 2 wrong usage.\n",
    );
    flags(
        &mut page,
        crate::inject::Args::augment_args(Command::new("kms-inject")),
        "Puts plugins and their reporter into the pod of an API server, as the encryption-config secret says. Done again it changes\n\
         nothing. With `--check` it ends with 1 if the pod would change.",
    );
    flags(
        &mut page,
        crate::check::Args::augment_args(Command::new("kms-check")),
        "Asks everything that kube-apiserver asks of a plugin, once. It ends with 1 if an API server could not use one of them.",
    );
    page.push_str("\n| step | what it asks |\n|---|---|\n");
    for step in StepName::ALL {
        let _ = writeln!(page, "| `{step}` | {} |", asks(step));
    }
    flags(
        &mut page,
        crate::preflight::Args::augment_args(Command::new("kms-preflight")),
        "The same from inside a pod. What was found is posted on the pod, and then it ends with 0, also when it is bad.",
    );
    page.push_str("\n| condition of the pod | what it says |\n|---|---|\n");
    for (condition, says) in [
        (names::RESULT, "True/`Succeeded`, or False/`Failed` with each plugin that is bad, and why"),
        (names::CONFIG_HASH, "the hash of the configuration that was checked"),
        (names::REMOTE_KEY_ID, "the id of the key in the KMS, if the first plugin gave one"),
        (names::STEPS, "every step at every socket, as JSON like that of `kms-check`"),
    ] {
        let _ = writeln!(page, "| `{condition}` | {says} |");
    }
    flags(
        &mut page,
        crate::preflight_controller::Args::augment_args(Command::new("kms-preflight-controller")),
        "Has a configuration checked when the operator's resource asks for it (`encryptionStatus.preflight.observedConfigHash`), and\n\
         stores the result beside it. A check that failed is made again after the waits of `--retry-after`, and at once when the annotation\n\
         `outrigger.dev/kms-preflight-retry` of the resource gets another value.",
    );
    let _ = write!(
        page,
        "\n## What kms-preflight-controller says\n\n| condition of the operator's resource | True for these reasons |\n|---|---|\n\
         | `{}` | `PreflightCheckFailed`: the check found something; `Error`: it could not be made; `PodCompletedWithoutResult`; \
         `PreflightTimeout`; else what Kubernetes says of the pod's containers, plugins first (`ImagePullBackOff`, `OOMKilled`) |\n\
         | `{}` | `RunningPreflightCheck`: a check is being made |\n\n\
         A failed result whose plugin gave no key id has `unknown` as `remoteKeyID`, which the resource requires.\n",
        names::DEGRADED,
        names::PROGRESSING,
    );
    testbed::harness::generated::check("docs/reference/kms-tools.md", &page)
}
