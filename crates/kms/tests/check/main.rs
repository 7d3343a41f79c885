//! `outrigger kms-check` as a user meets it, against a real plugin with every fault.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic as tests may"
)]

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::fakes::kms_plugin::{DecryptFault, EncryptFault, KmsPlugin, Manner, Script};
use testbed::harness::binaries;
use tonic::Code;

/// What a plugin does wrong, the step that tells it, and the cause that it has.
type Fault = (fn(&mut Script), &'static str, &'static str);

/// Runs `outrigger kms-check`; the plugin is served by this process meanwhile.
async fn check(args: &[&str]) -> Output {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let run = move || {
        let mut command =
            std::process::Command::new(binaries::path("outrigger").expect("the binary is built"));
        command.arg("kms-check").args(args).output().expect("the binary starts")
    };
    tokio::task::spawn_blocking(run).await.expect("it ends")
}

async fn json(args: &[&str]) -> (Option<i32>, Value) {
    let output = check(&[&["-o", "json"], args].concat()).await;
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// The step at which a check failed, and why.
async fn failure(socket: &str) -> (String, String) {
    let (code, found) = json(&[socket, "--kms-call-timeout", "300ms"]).await;
    assert_eq!(code, Some(1), "{found}");
    let steps = found[0]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 8, "{found}");
    let failed = steps.iter().find(|step| step["outcome"] == "failed").expect("a step failed");
    assert!(failed["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{failed}");
    let text = |name: &str| failed[name].as_str().unwrap_or_default().to_owned();
    (text("step"), text("cause"))
}

fn plugin(folder: &tempfile::TempDir) -> (KmsPlugin, String) {
    let plugin = KmsPlugin::start("kms-1", folder.path()).expect("a plugin");
    let socket = plugin.socket().display().to_string();
    (plugin, socket)
}

/// I-15.
#[tokio::test(flavor = "multi_thread")]
async fn a_good_plugin_passes_every_step() {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, socket) = plugin(&folder);
    let address = format!("unix://{socket}");
    let output = check(&[&address]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(output.stderr.is_empty());
    assert!(text.starts_with(&format!("{address}\n  status       passed")), "{text}");
    assert!(text.ends_with("  good\n") && text.contains(&plugin.key_id()), "{text}");
    assert_eq!((plugin.encrypted(), plugin.decrypted()), (1, 1));
    let (code, found) = json(&[&socket]).await;
    assert_eq!(code, Some(0));
    assert_eq!(found[0]["remoteKeyID"], plugin.key_id());
    assert_eq!((&found[0]["version"], &found[0]["passed"]), (&"v2".into(), &true.into()));
    let steps = found[0]["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["outcome"] == "passed"), "{found}");
    let (code, found) = json(&[&socket, "--status-only"]).await;
    assert_eq!((code, &found[0]["passed"]), (Some(0), &true.into()));
    assert_eq!(plugin.encrypted(), 2, "asked to encrypt although only the status was wanted");
}

/// T-F4.
#[tokio::test(flavor = "multi_thread")]
async fn each_fault_of_a_plugin_is_told_at_its_step() {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, socket) = plugin(&folder);
    let faults: Vec<Fault> = vec![
        (|script| script.healthz = b"err".to_vec(), "status", "NotOk"),
        (|script| script.healthz = b"OK".to_vec(), "status", "NotOk"),
        (|script| script.version = b"v1".to_vec(), "version", "BadVersion"),
        (|script| script.key_id = Some(vec![]), "keyID", "BadKeyID"),
        (|script| script.key_id = Some(vec![b'x'; 1025]), "keyID", "BadKeyID"),
        (|script| script.hang = true, "status", "Timeout"),
        (
            |script| script.error = Some((Code::Unauthenticated, "no".into())),
            "status",
            "RpcError(Unauthenticated)",
        ),
        (|script| script.other_service = true, "status", "RpcError(Unimplemented)"),
        (
            |script| script.encrypt = Some(EncryptFault::Error(Code::PermissionDenied, "no".into())),
            "encrypt",
            "RpcError(PermissionDenied)",
        ),
        (|script| script.encrypt = Some(EncryptFault::CiphertextOf(0)), "ciphertext", "RoundTripFailed"),
        (|script| script.encrypt = Some(EncryptFault::CiphertextOf(1025)), "ciphertext", "RoundTripFailed"),
        (|script| script.encrypt = Some(EncryptFault::Plaintext), "ciphertext", "RoundTripFailed"),
        (
            |script| script.encrypt = Some(EncryptFault::OtherKeyId("k".into())),
            "sameKeyID",
            "RoundTripFailed",
        ),
        (|script| script.key_id_changes = true, "sameKeyID", "RoundTripFailed"),
        (
            |script| script.encrypt = Some(EncryptFault::Annotation("a.example".into(), 33_000)),
            "annotations",
            "RoundTripFailed",
        ),
        (
            |script| script.encrypt = Some(EncryptFault::Annotation("plain".into(), 1)),
            "annotations",
            "RoundTripFailed",
        ),
        (
            |script| script.decrypt = Some(DecryptFault::Error(Code::PermissionDenied, "no".into())),
            "decrypt",
            "RpcError(PermissionDenied)",
        ),
        (|script| script.decrypt = Some(DecryptFault::OtherText), "decrypt", "RoundTripFailed"),
    ];
    for (fault, step, cause) in faults {
        plugin.script(fault);
        assert_eq!(failure(&socket).await, (step.into(), cause.into()));
        plugin.heal().unwrap();
    }
    for (manner, cause) in [(Manner::http1(), "ProtocolError"), (Manner::Ignore, "Timeout")] {
        plugin.meet(manner);
        assert_eq!(failure(&socket).await, ("status".into(), cause.into()));
        plugin.heal().unwrap();
    }
    plugin.crash();
    assert_eq!(failure(&socket).await, ("status".into(), "ConnectionRefused".into()));
    plugin.remove_socket();
    assert_eq!(failure(&socket).await, ("status".into(), "SocketMissing".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_hangs_holds_no_other_up_and_all_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (hanging, socket) = plugin(&folder);
    hanging.script(|script| script.hang = true);
    let good = KmsPlugin::start("kms-2", folder.path()).unwrap();
    let (other, nowhere) =
        (good.socket().display().to_string(), folder.path().join("none").display().to_string());
    let begin = Instant::now();
    let (code, found) = json(&[&socket, &other, &nowhere, &socket, "--kms-call-timeout", "1s"]).await;
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert_eq!(code, Some(1));
    let passed: Vec<&Value> = found.as_array().unwrap().iter().map(|one| &one["passed"]).collect();
    assert_eq!(passed, [&Value::from(false), &true.into(), &false.into(), &false.into()]);
    let output = check(&[&nowhere]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said, format!("outrigger: an API server could not use {nowhere}\n"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("status       failed") && text.contains("SocketMissing: "), "{text}");
    assert!(text.ends_with("  bad\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_ends_with_two() {
    for args in
        [&[][..], &["kms.sock"], &["tcp://x"], &["/s", "--kms-call-timeout", "0s"], &["/s", "-o", "xml"]]
    {
        let output = check(args).await;
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
    }
}
