//! Tests that compare the generated reference pages with the code.

use std::fmt::Write;
use std::path::Path;

use api::kms::check::StepName;
use api::names::kms::preflight as names;
use clap::{Args, Command};

fn push_command(page: &mut String, command: Command, about: &str) {
    let _ = write!(page, "\n## outrigger {}\n\n{about}\n", command.get_name());
    page.push_str(&testbed::harness::generated::flag_tables(&command));
}

/// What a step of a check requires.
fn requirement(step: StepName) -> &'static str {
    match step {
        StepName::Status => "Status responds before the timeout and `healthz` is `ok`",
        StepName::Version => "the version is one that API servers accept",
        StepName::KeyId => "the key id has 1 to 1024 bytes",
        StepName::Encrypt => "Encrypt responds before the timeout",
        StepName::Ciphertext => "the ciphertext differs from the plaintext and has 1 to 1024 bytes",
        StepName::SameKeyId => "Encrypt returns the same key id as Status",
        StepName::Annotations => {
            "annotation keys are fully qualified domain names; all annotations have at most 32 KiB"
        }
        StepName::Decrypt => "Decrypt returns the plaintext",
    }
}

#[test]
fn tools_page_matches_code() -> testbed::Result<()> {
    let mut page = String::from(
        "# KMS plugin tools\n\nGenerated from the code; do not edit. Exit codes of all tools: 0 success, 1 failure, 2 usage error.\n",
    );
    push_command(
        &mut page,
        crate::inject::Args::augment_args(Command::new("kms-inject")),
        "Adds the KMS plugins in the encryption-config Secret, and the reporter, to the pod of an API server. It is idempotent.\n\
         With `--check` it exits with 1 if the pod is out of sync.",
    );
    push_command(
        &mut page,
        crate::check::Args::augment_args(Command::new("kms-check")),
        "Makes every KMS v2 call that kube-apiserver makes, once, and validates the responses. It exits with 1 if an API server could\n\
         not use one of the plugins.",
    );
    page.push_str("\n| step | passes if |\n|---|---|\n");
    for step in StepName::ALL {
        let _ = writeln!(page, "| `{step}` | {} |", requirement(step));
    }
    push_command(
        &mut page,
        crate::preflight::Args::augment_args(Command::new("kms-preflight")),
        "Runs the same check inside a pod and records the result in the pod's conditions. It exits with 0 once the result is recorded,\n\
         also if the check failed.",
    );
    page.push_str("\n| pod condition | content |\n|---|---|\n");
    for (condition, content) in [
        (names::RESULT, "`True`/`Succeeded`, or `False`/`Failed` with each failed plugin and the cause"),
        (names::CONFIG_HASH, "hash of the checked configuration"),
        (names::REMOTE_KEY_ID, "id of the key in the KMS, if the first plugin returned one"),
        (names::STEPS, "all steps of all sockets, as JSON in the format of `kms-check -o json`"),
    ] {
        let _ = writeln!(page, "| `{condition}` | {content} |");
    }
    push_command(
        &mut page,
        crate::preflight_controller::Args::augment_args(Command::new("kms-preflight-controller")),
        "Checks a KMS configuration when the operator resource requests it (`encryptionStatus.preflight.observedConfigHash`), and\n\
         stores the result next to the request. A failed check is retried after the delays of `--retry-after`, and immediately when the\n\
         annotation `outrigger.dev/kms-preflight-retry` of the resource changes.",
    );
    let _ = write!(
        page,
        "\n## Conditions of kms-preflight-controller\n\n| condition of the operator resource | reasons when True |\n|---|---|\n\
         | `{}` | `PreflightCheckFailed`: the check failed; `Error`: the check could not run; `PodCompletedWithoutResult`; \
         `PreflightTimeout`; else the reason that Kubernetes reports for the pod's containers, plugins first (`ImagePullBackOff`, \
         `OOMKilled`) |\n\
         | `{}` | `RunningPreflightCheck`: a check is running |\n\n\
         A failed result of a plugin that returned no key id has the `remoteKeyID` `unknown`, because the field is required.\n",
        names::DEGRADED,
        names::PROGRESSING,
    );
    testbed::harness::generated::check("docs/reference/kms-tools.md", &page)
}

/// Returns all Rust source below a directory.
fn read_sources(dir: &Path) -> String {
    let mut text = String::new();
    for path in std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            text.push_str(&read_sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(path).unwrap_or_default());
        }
    }
    text
}

#[test]
fn scenarios_page_lists_existing_ids_and_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reference/scenarios-kms.md")).unwrap_or_default();
    let tests = read_sources(&root.join("crates/kms/tests"));
    let sources = read_sources(&root.join("crates/plan/src/kms")) + &tests;
    let is_id = |word: &&str| word.starts_with("T-") && word.ends_with(|c: char| c.is_ascii_digit());
    for id in sources.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(is_id) {
        assert!(page.contains(&format!("| {id} |")), "{id} is not in the page");
    }
    let rows = page.lines().filter(|line| line.starts_with("| T-"));
    let names: Vec<&str> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 60, "{names:?}");
    for name in names.iter().filter_map(|name| name.rsplit_once("::")).map(|(_, name)| name) {
        assert!(tests.contains(&format!("fn {name}(")), "no test {name}");
    }
}
