//! The plugin client against a fake plugin with every fault: how each failure is classified, and how fast.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test helpers may panic")]

use std::time::{Duration, Instant};

use api::kms::{Cause, RpcCode};
use kms::probe::PluginClient;
use plan::kms::call::{CallError, StatusReply};
use plan::kms::round_trip;
use tempfile::TempDir;
use testbed::fakes::kms_plugin::{ConnectionBehavior, DecryptFault, EncryptFault, FakeKmsPlugin};
use tonic::Code;

/// Timeout of calls, except in tests about timeouts.
const LONG: Duration = Duration::from_secs(20);

/// Upper bound for failures that must not wait for the timeout.
const IMMEDIATELY: Duration = Duration::from_secs(2);

struct Fixture {
    plugin: FakeKmsPlugin,
    probe: PluginClient,
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let plugin = FakeKmsPlugin::start("kms-1", dir.path()).unwrap();
        let probe = PluginClient::new(plugin.socket());
        Self { plugin, probe, dir }
    }

    /// Calls Status, which must fail immediately.
    async fn failure(&self) -> CallError {
        let start = Instant::now();
        let failure = self.probe.status(LONG).await.unwrap_err();
        assert!(start.elapsed() < IMMEDIATELY, "{failure} was returned after {:?}", start.elapsed());
        failure
    }
}

#[tokio::test]
async fn healthy_plugin_responds_to_every_call() {
    let fixture = Fixture::new();
    let expected = StatusReply { version: "v2".into(), healthz: "ok".into(), key_id: "kms-1-1".into() };
    assert_eq!(fixture.probe.status(LONG).await.unwrap(), expected);
    let encrypted = fixture.probe.encrypt(b"text", "uid", LONG).await.unwrap();
    round_trip::check_encrypt_reply(b"text", "kms-1-1", &encrypted).unwrap();
    assert_eq!(fixture.probe.decrypt(&encrypted, "uid", LONG).await.unwrap(), b"text");
}

#[tokio::test]
async fn rotated_keys_survive_plugin_restart() {
    let Fixture { plugin, probe, dir } = Fixture::new();
    let old = probe.encrypt(b"old", "uid", LONG).await.unwrap();
    assert_eq!(plugin.rotate_key().unwrap(), "kms-1-2");
    let new = probe.encrypt(b"new", "uid", LONG).await.unwrap();
    assert_eq!(probe.status(LONG).await.unwrap().key_id, "kms-1-2");
    drop(plugin);
    let _again = FakeKmsPlugin::start("kms-1", dir.path()).unwrap();
    for (encrypted, text, key) in [(&old, b"old", "kms-1-1"), (&new, b"new", "kms-1-2")] {
        assert_eq!(encrypted.key_id, key);
        assert_eq!(probe.decrypt(encrypted, "uid", LONG).await.unwrap(), text);
    }
}

#[tokio::test]
async fn connect_failure_is_returned_immediately() {
    let fixture = Fixture::new();
    fixture.plugin.crash();
    assert_eq!(fixture.failure().await.cause(), Cause::ConnectionRefused, "a stale socket");
    fixture.plugin.stop();
    assert_eq!(fixture.failure().await, CallError::SocketMissing);
    fixture.plugin.restart().unwrap();
    fixture.probe.status(LONG).await.unwrap();
    fixture.plugin.remove_socket();
    assert_eq!(fixture.failure().await, CallError::SocketMissing, "the plugin listens on a deleted socket");
    std::fs::write(fixture.plugin.socket(), "").unwrap();
    assert_eq!(fixture.failure().await.cause(), Cause::ConnectionRefused, "a regular file");
}

#[tokio::test]
async fn non_grpc_peer_is_detected_immediately() {
    let fixture = Fixture::new();
    for manner in [
        ConnectionBehavior::Close,
        ConnectionBehavior::Reset,
        ConnectionBehavior::http1(),
        ConnectionBehavior::tls(),
        ConnectionBehavior::SendAndClose((0..=255).cycle().take(5000).collect()),
        ConnectionBehavior::SendAndClose(vec![0; 5]),
    ] {
        fixture.plugin.set_connection_behavior(manner.clone());
        assert_eq!(fixture.failure().await.cause(), Cause::ProtocolError, "{manner:?}");
    }
}

#[tokio::test]
async fn silent_plugin_times_out() {
    let fixture = Fixture::new();
    let limit = Duration::from_millis(300);
    for manner in [ConnectionBehavior::Ignore, ConnectionBehavior::half_frame(), ConnectionBehavior::Serve] {
        fixture.plugin.set_connection_behavior(manner.clone());
        fixture.plugin.script(|script| script.hang = true);
        let start = Instant::now();
        assert_eq!(fixture.probe.status(limit).await, Err(CallError::Timeout(limit)), "{manner:?}");
        assert!(start.elapsed() < limit + IMMEDIATELY);
    }
    fixture.plugin.recover().unwrap();
    fixture.plugin.script(|script| script.latency = limit / 2);
    fixture.probe.status(limit * 10).await.unwrap();
}

#[tokio::test]
async fn plugin_error_keeps_code_and_message() {
    let fixture = Fixture::new();
    let long = "鍵 denied; ".repeat(800);
    for number in 1..=16 {
        fixture.plugin.script(|script| script.error = Some((Code::from(number), long.clone())));
        let expected = CallError::Rpc { code: RpcCode::new(number), message: long.clone() };
        assert_eq!(fixture.failure().await, expected, "{number}");
    }
    fixture.plugin.script(|script| {
        script.error = None;
        script.wrong_service = true;
    });
    assert_eq!(fixture.failure().await.cause(), Cause::RpcError(RpcCode::UNIMPLEMENTED));
}

#[tokio::test]
async fn oversized_or_non_utf8_response_is_rejected() {
    let fixture = Fixture::new();
    for length in [64 * 1024, 16 * 1024 * 1024] {
        fixture.plugin.script(|script| script.healthz = vec![b'x'; length]);
        assert_eq!(fixture.failure().await, CallError::Protocol("response too large".into()));
    }
    fixture.plugin.script(|script| script.healthz = vec![b'x'; 60 * 1024]);
    assert_eq!(fixture.probe.status(LONG).await.unwrap().healthz.len(), 60 * 1024);
    fixture.plugin.script(|script| script.healthz = b"no \xff text".to_vec());
    assert_eq!(
        fixture.failure().await,
        CallError::Protocol("healthz is not valid UTF-8: no \u{fffd} text".into())
    );
}

#[tokio::test]
async fn connection_is_reused_only_for_same_socket_file() {
    let fixture = Fixture::new();
    let accepted = || fixture.plugin.calls().accepted;
    for _ in 0..10 {
        fixture.probe.status(LONG).await.unwrap();
    }
    assert_eq!(accepted(), 1, "one connection for all calls");
    // An error status is a response: the connection is reused.
    fixture.plugin.script(|script| script.error = Some((Code::Internal, "no".into())));
    fixture.failure().await;
    fixture.plugin.script(|script| script.error = None);
    fixture.probe.status(LONG).await.unwrap();
    assert_eq!(accepted(), 1);
    // The socket is replaced while the old listener still serves its connections.
    let replaced = fixture.dir.path().join("replaced");
    std::fs::rename(fixture.plugin.socket(), &replaced).unwrap();
    assert_eq!(fixture.failure().await, CallError::SocketMissing, "a new client could not connect either");
    let next = FakeKmsPlugin::start("kms-2", fixture.dir.path()).unwrap();
    std::fs::rename(next.socket(), fixture.plugin.socket()).unwrap();
    assert_eq!(fixture.probe.status(LONG).await.unwrap().key_id, "kms-2-1");
    assert_eq!((accepted(), next.calls().accepted), (1, 1));
    // A call that times out closes its connection.
    next.script(|script| script.hang = true);
    fixture.probe.status(Duration::from_millis(50)).await.unwrap_err();
    next.script(|script| script.hang = false);
    fixture.probe.status(LONG).await.unwrap();
    assert_eq!(next.calls().accepted, 2);
}

#[tokio::test]
async fn replaced_plugin_is_found_without_leaking_connections() {
    let fixture = Fixture::new();
    for round in 0..200 {
        match round % 4 {
            0 => fixture.plugin.restart().unwrap(),
            1 => fixture.plugin.set_connection_behavior(ConnectionBehavior::Ignore),
            2 => fixture.plugin.set_connection_behavior(ConnectionBehavior::Close),
            _ => fixture.plugin.set_connection_behavior(ConnectionBehavior::Serve),
        }
        // Failures are expected here.
        let _ = fixture.probe.status(Duration::from_millis(20)).await;
    }
    fixture.plugin.recover().unwrap();
    fixture.probe.status(LONG).await.unwrap();
    testbed::harness::wait::until("all connections but the last to close", LONG, || {
        let open = fixture.plugin.connections();
        async move { if open == 1 { Ok(()) } else { Err(format!("{open} are open")) } }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn encryption_faults_are_detected() {
    use round_trip::ReplyRejection;
    let fixture = Fixture::new();
    let text = b"a text to encrypt";
    for (fault, expected) in [
        (EncryptFault::WrongKeyId("other".into()), ReplyRejection::WrongKeyId),
        (EncryptFault::CiphertextLength(0), ReplyRejection::Empty),
        (EncryptFault::CiphertextLength(1025), ReplyRejection::TooLong(1025)),
        (EncryptFault::Plaintext, ReplyRejection::Plain),
        (EncryptFault::Annotation("a.example".into(), 40_000), ReplyRejection::AnnotationsTooLong(40_009)),
        (EncryptFault::Annotation("none".into(), 1), ReplyRejection::AnnotationName("none".into())),
    ] {
        fixture.plugin.script(|script| script.encrypt = Some(fault));
        let encrypted = fixture.probe.encrypt(text, "uid", LONG).await.unwrap();
        assert_eq!(round_trip::check_encrypt_reply(text, "kms-1-1", &encrypted), Err(expected));
    }
    fixture.plugin.script(|script| script.encrypt = None);
    let encrypted = fixture.probe.encrypt(text, "uid", LONG).await.unwrap();
    fixture.plugin.script(|script| script.decrypt = Some(DecryptFault::WrongPlaintext));
    let decrypted = fixture.probe.decrypt(&encrypted, "uid", LONG).await.unwrap();
    assert_eq!(round_trip::check_plaintext(text, &decrypted), Err(ReplyRejection::WrongPlaintext));
    let denied = DecryptFault::Error(Code::PermissionDenied, "kms:Decrypt".into());
    fixture.plugin.script(|script| script.decrypt = Some(denied));
    let failure = fixture.probe.decrypt(&encrypted, "uid", LONG).await.unwrap_err();
    assert_eq!(failure, CallError::Rpc { code: RpcCode::new(7), message: "kms:Decrypt".into() });
}
