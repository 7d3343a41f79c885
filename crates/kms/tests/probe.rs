//! Calls of real plugins that are well, and sick in every way: what each end of a call is taken for, and how soon.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may panic as tests may")]

use std::time::{Duration, Instant};

use api::kms::{Cause, RpcCode};
use kms::probe::Plugin;
use plan::kms::call::{Failure, StatusAnswer};
use plan::kms::round_trip;
use tempfile::TempDir;
use testbed::fakes::kms_plugin::{DecryptFault, EncryptFault, KmsPlugin, Manner};
use tonic::Code;

/// How long a call may take in these tests, unless it is about that.
const LONG: Duration = Duration::from_secs(20);

/// A call that is told at once.
const AT_ONCE: Duration = Duration::from_secs(2);

struct Ground {
    plugin: KmsPlugin,
    probe: Plugin,
    folder: TempDir,
}

impl Ground {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plugin = KmsPlugin::start("kms-1", folder.path()).unwrap();
        let probe = Plugin::at(plugin.socket());
        Self { plugin, probe, folder }
    }

    /// The failure of a call that fails at once.
    async fn failure(&self) -> Failure {
        let begin = Instant::now();
        let failure = self.probe.status(LONG).await.unwrap_err();
        assert!(begin.elapsed() < AT_ONCE, "{failure} was told after {:?}", begin.elapsed());
        failure
    }
}

#[tokio::test]
async fn a_plugin_that_is_well_says_so() {
    let ground = Ground::new();
    let expected = StatusAnswer { version: "v2".into(), healthz: "ok".into(), key_id: "kms-1-1".into() };
    assert_eq!(ground.probe.status(LONG).await.unwrap(), expected);
    let encrypted = ground.probe.encrypt(b"text", "uid", LONG).await.unwrap();
    round_trip::accept(b"text", "kms-1-1", &encrypted).unwrap();
    assert_eq!(ground.probe.decrypt(&encrypted, "uid", LONG).await.unwrap(), b"text");
}

#[tokio::test]
async fn keys_outlive_the_plugin_and_old_ones_still_decrypt() {
    let Ground { plugin, probe, folder } = Ground::new();
    let old = probe.encrypt(b"old", "uid", LONG).await.unwrap();
    assert_eq!(plugin.rotate().unwrap(), "kms-1-2");
    let new = probe.encrypt(b"new", "uid", LONG).await.unwrap();
    assert_eq!(probe.status(LONG).await.unwrap().key_id, "kms-1-2");
    drop(plugin);
    let _again = KmsPlugin::start("kms-1", folder.path()).unwrap();
    for (encrypted, text, key) in [(&old, b"old", "kms-1-1"), (&new, b"new", "kms-1-2")] {
        assert_eq!(encrypted.key_id, key);
        assert_eq!(probe.decrypt(encrypted, "uid", LONG).await.unwrap(), text);
    }
}

#[tokio::test]
async fn a_dial_that_fails_is_told_at_once() {
    let ground = Ground::new();
    ground.plugin.crash();
    assert_eq!(ground.failure().await.cause(), Cause::ConnectionRefused, "a stale socket");
    ground.plugin.stop();
    assert_eq!(ground.failure().await, Failure::SocketMissing);
    ground.plugin.restart().unwrap();
    ground.probe.status(LONG).await.unwrap();
    ground.plugin.remove_socket();
    assert_eq!(ground.failure().await, Failure::SocketMissing, "it listens, and cannot be reached");
    std::fs::write(ground.plugin.socket(), "").unwrap();
    assert_eq!(ground.failure().await.cause(), Cause::ConnectionRefused, "a file that is no socket");
}

#[tokio::test]
async fn who_does_not_speak_grpc_is_found_at_once() {
    let ground = Ground::new();
    for manner in [
        Manner::Close,
        Manner::Reset,
        Manner::http1(),
        Manner::tls(),
        Manner::SendAndClose((0..=255).cycle().take(5000).collect()),
        Manner::SendAndClose(vec![0; 5]),
    ] {
        ground.plugin.meet(manner.clone());
        assert_eq!(ground.failure().await.cause(), Cause::ProtocolError, "{manner:?}");
    }
}

#[tokio::test]
async fn who_gives_no_answer_is_waited_for_as_long_as_allowed() {
    let ground = Ground::new();
    let limit = Duration::from_millis(300);
    for manner in [Manner::Ignore, Manner::half_frame(), Manner::Serve] {
        ground.plugin.meet(manner.clone());
        ground.plugin.script(|script| script.hang = true);
        let begin = Instant::now();
        assert_eq!(ground.probe.status(limit).await, Err(Failure::Timeout(limit)), "{manner:?}");
        assert!(begin.elapsed() < limit + AT_ONCE);
    }
    ground.plugin.heal().unwrap();
    ground.plugin.script(|script| script.latency = limit / 2);
    ground.probe.status(limit * 10).await.unwrap();
}

#[tokio::test]
async fn an_error_of_the_plugin_keeps_its_code_and_its_text() {
    let ground = Ground::new();
    let long = "鍵 denied; ".repeat(800);
    for number in 1..=16 {
        ground.plugin.script(|script| script.error = Some((Code::from(number), long.clone())));
        let expected = Failure::Rpc { code: RpcCode::new(number), message: long.clone() };
        assert_eq!(ground.failure().await, expected, "{number}");
    }
    ground.plugin.script(|script| {
        script.error = None;
        script.other_service = true;
    });
    assert_eq!(ground.failure().await.cause(), Cause::RpcError(RpcCode::UNIMPLEMENTED));
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_no_text_is_refused() {
    let ground = Ground::new();
    for length in [64 * 1024, 16 * 1024 * 1024] {
        ground.plugin.script(|script| script.healthz = vec![b'x'; length]);
        assert_eq!(ground.failure().await, Failure::Protocol("the answer is too long".into()));
    }
    ground.plugin.script(|script| script.healthz = vec![b'x'; 60 * 1024]);
    assert_eq!(ground.probe.status(LONG).await.unwrap().healthz.len(), 60 * 1024);
    ground.plugin.script(|script| script.healthz = b"no \xff text".to_vec());
    assert_eq!(ground.failure().await, Failure::Protocol("healthz is no UTF-8: no \u{fffd} text".into()));
}

#[tokio::test]
async fn a_connection_is_kept_only_while_it_leads_to_the_plugin() {
    let ground = Ground::new();
    let accepted = || ground.plugin.calls().accepted;
    for _ in 0..10 {
        ground.probe.status(LONG).await.unwrap();
    }
    assert_eq!(accepted(), 1, "one for all calls");
    // Refused by the plugin is answered.
    ground.plugin.script(|script| script.error = Some((Code::Internal, "no".into())));
    ground.failure().await;
    ground.plugin.script(|script| script.error = None);
    ground.probe.status(LONG).await.unwrap();
    assert_eq!(accepted(), 1);
    // Another listener on another file, while the one before still serves whoever is connected.
    let replaced = ground.folder.path().join("replaced");
    std::fs::rename(ground.plugin.socket(), &replaced).unwrap();
    assert_eq!(ground.failure().await, Failure::SocketMissing, "whoever comes now cannot connect either");
    let next = KmsPlugin::start("kms-2", ground.folder.path()).unwrap();
    std::fs::rename(next.socket(), ground.plugin.socket()).unwrap();
    assert_eq!(ground.probe.status(LONG).await.unwrap().key_id, "kms-2-1");
    assert_eq!((accepted(), next.calls().accepted), (1, 1));
    // A call that gets no answer takes its connection with it.
    next.script(|script| script.hang = true);
    ground.probe.status(Duration::from_millis(50)).await.unwrap_err();
    next.script(|script| script.hang = false);
    ground.probe.status(LONG).await.unwrap();
    assert_eq!(next.calls().accepted, 2);
}

#[tokio::test]
async fn a_plugin_that_was_replaced_is_found_and_one_connection_is_left() {
    let ground = Ground::new();
    for round in 0..200 {
        match round % 4 {
            0 => ground.plugin.restart().unwrap(),
            1 => ground.plugin.meet(Manner::Ignore),
            2 => ground.plugin.meet(Manner::Close),
            _ => ground.plugin.meet(Manner::Serve),
        }
        // Whether it fails is not the question here.
        let _ = ground.probe.status(Duration::from_millis(20)).await;
    }
    ground.plugin.heal().unwrap();
    ground.probe.status(LONG).await.unwrap();
    testbed::harness::wait::until("the end of all connections but that of the last call", LONG, || {
        let open = ground.plugin.connections();
        async move { if open == 1 { Ok(()) } else { Err(format!("{open} are open")) } }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn faults_of_encryption_are_seen() {
    use round_trip::Refused;
    let ground = Ground::new();
    let text = b"a text to encrypt";
    for (fault, expected) in [
        (EncryptFault::OtherKeyId("other".into()), Refused::OtherKey),
        (EncryptFault::CiphertextOf(0), Refused::Empty),
        (EncryptFault::CiphertextOf(1025), Refused::TooLong(1025)),
        (EncryptFault::Plaintext, Refused::Plain),
        (EncryptFault::Annotation("a.example".into(), 40_000), Refused::AnnotationsTooLong(40_009)),
        (EncryptFault::Annotation("none".into(), 1), Refused::AnnotationName("none".into())),
    ] {
        ground.plugin.script(|script| script.encrypt = Some(fault));
        let given = ground.probe.encrypt(text, "uid", LONG).await.unwrap();
        assert_eq!(round_trip::accept(text, "kms-1-1", &given), Err(expected));
    }
    ground.plugin.script(|script| script.encrypt = None);
    let given = ground.probe.encrypt(text, "uid", LONG).await.unwrap();
    ground.plugin.script(|script| script.decrypt = Some(DecryptFault::OtherText));
    let opened = ground.probe.decrypt(&given, "uid", LONG).await.unwrap();
    assert_eq!(round_trip::same(text, &opened), Err(Refused::OtherText));
    let denied = DecryptFault::Error(Code::PermissionDenied, "kms:Decrypt".into());
    ground.plugin.script(|script| script.decrypt = Some(denied));
    let failure = ground.probe.decrypt(&given, "uid", LONG).await.unwrap_err();
    assert_eq!(failure, Failure::Rpc { code: RpcCode::new(7), message: "kms:Decrypt".into() });
}
