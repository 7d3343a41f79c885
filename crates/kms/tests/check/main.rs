//! `outrigger kms-check` against a fake plugin with every fault.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::fakes::kms_plugin::{ConnectionBehavior, DecryptFault, EncryptFault, FakeKmsPlugin, Script};
use testbed::harness::binaries;
use tonic::Code;

/// A fault of the plugin, the step that fails, and its cause.
type Fault = (fn(&mut Script), &'static str, &'static str);

/// Runs `outrigger kms-check` in a blocking task: this process serves the plugin.
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

/// Returns the failed step and its cause.
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

fn plugin(dir: &tempfile::TempDir) -> (FakeKmsPlugin, String) {
    let plugin = FakeKmsPlugin::start("kms-1", dir.path()).expect("a plugin");
    let socket = plugin.socket().display().to_string();
    (plugin, socket)
}

#[tokio::test(flavor = "multi_thread")]
async fn healthy_plugin_passes_every_step() {
    let dir = tempfile::tempdir().unwrap();
    let (plugin, socket) = plugin(&dir);
    let address = format!("unix://{socket}");
    let output = check(&[&address]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(output.stderr.is_empty());
    assert!(text.starts_with(&format!("{address}\n  status       passed")), "{text}");
    assert!(text.ends_with("  passed\n") && text.contains(&plugin.key_id()), "{text}");
    assert_eq!((plugin.encrypted(), plugin.decrypted()), (1, 1));
    let (code, found) = json(&[&socket]).await;
    assert_eq!(code, Some(0));
    assert_eq!(found[0]["remoteKeyID"], plugin.key_id());
    assert_eq!((&found[0]["version"], &found[0]["passed"]), (&"v2".into(), &true.into()));
    let steps = found[0]["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["outcome"] == "passed"), "{found}");
    let (code, found) = json(&[&socket, "--status-only"]).await;
    assert_eq!((code, &found[0]["passed"]), (Some(0), &true.into()));
    assert_eq!(plugin.encrypted(), 2, "--status-only must not encrypt");
}

/// T-F4: every fault of a plugin fails its own step.
#[tokio::test(flavor = "multi_thread")]
async fn each_plugin_fault_fails_its_step() {
    let dir = tempfile::tempdir().unwrap();
    let (plugin, socket) = plugin(&dir);
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
        (|script| script.wrong_service = true, "status", "RpcError(Unimplemented)"),
        (
            |script| script.encrypt = Some(EncryptFault::Error(Code::PermissionDenied, "no".into())),
            "encrypt",
            "RpcError(PermissionDenied)",
        ),
        (|script| script.encrypt = Some(EncryptFault::CiphertextLength(0)), "ciphertext", "RoundTripFailed"),
        (
            |script| script.encrypt = Some(EncryptFault::CiphertextLength(1025)),
            "ciphertext",
            "RoundTripFailed",
        ),
        (|script| script.encrypt = Some(EncryptFault::Plaintext), "ciphertext", "RoundTripFailed"),
        (
            |script| script.encrypt = Some(EncryptFault::WrongKeyId("k".into())),
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
        (|script| script.decrypt = Some(DecryptFault::WrongPlaintext), "decrypt", "RoundTripFailed"),
    ];
    for (fault, step, cause) in faults {
        plugin.script(fault);
        assert_eq!(failure(&socket).await, (step.into(), cause.into()));
        plugin.recover().unwrap();
    }
    for (manner, cause) in
        [(ConnectionBehavior::http1(), "ProtocolError"), (ConnectionBehavior::Ignore, "Timeout")]
    {
        plugin.set_connection_behavior(manner);
        assert_eq!(failure(&socket).await, ("status".into(), cause.into()));
        plugin.recover().unwrap();
    }
    plugin.crash();
    assert_eq!(failure(&socket).await, ("status".into(), "ConnectionRefused".into()));
    plugin.remove_socket();
    assert_eq!(failure(&socket).await, ("status".into(), "SocketMissing".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_plugin_does_not_delay_others() {
    let dir = tempfile::tempdir().unwrap();
    let (hanging, socket) = plugin(&dir);
    hanging.script(|script| script.hang = true);
    let good = FakeKmsPlugin::start("kms-2", dir.path()).unwrap();
    let (other, missing) =
        (good.socket().display().to_string(), dir.path().join("none").display().to_string());
    let start = Instant::now();
    let (code, found) = json(&[&socket, &other, &missing, &socket, "--kms-call-timeout", "1s"]).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(code, Some(1));
    let passed: Vec<&Value> = found.as_array().unwrap().iter().map(|one| &one["passed"]).collect();
    assert_eq!(passed, [&Value::from(false), &true.into(), &false.into(), &false.into()]);
    let output = check(&[&missing]).await;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(stderr, format!("outrigger: KMS plugin check failed: {missing}\n"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("status       failed") && text.contains("SocketMissing: "), "{text}");
    assert!(text.ends_with("  failed\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_error_exits_with_2() {
    for args in
        [&[][..], &["kms.sock"], &["tcp://x"], &["/s", "--kms-call-timeout", "0s"], &["/s", "-o", "xml"]]
    {
        let output = check(args).await;
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
    }
}
