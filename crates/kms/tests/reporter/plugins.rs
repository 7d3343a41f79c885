//! Reports of healthy plugins, and of plugins with every fault.

use std::time::{Duration, Instant};

use testbed::fakes::kms_plugin::ConnectionBehavior;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};
use tonic::Code;

use crate::fixture::{FORMS, Fixture};
use crate::reporter_process::Reporter;

/// One target for each report format.
const ONE_TARGET_PER_FORM: [(&str, &str); 3] =
    [("kubeapiserver", "condition"), ("authentication", "typed"), ("kmshealth", "kmshealth")];

fn start_reporters(
    fixture: &Fixture<'_>,
    forms: &[(&str, &str)],
    keys: &[u32],
) -> Result<Vec<Reporter>, Error> {
    forms
        .iter()
        .map(|(target, form)| fixture.reporter("master-0").keys(keys).on(target, form).start())
        .collect()
}

/// T-P1: healthy plugins, on all targets in all formats.
pub async fn healthy_plugin_is_reported_in_every_format(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let (write, _read) = (fixture.start_plugin(2)?, fixture.start_plugin(1)?);
    // Two formats on one object need two nodes: a node has one field manager, and each apply replaces its previous one.
    let start = |(target, form): &(&str, &str)| fixture.reporter(form).keys(&[2, 1]).on(target, form).start();
    for reporter in FORMS.iter().map(start).collect::<Result<Vec<_>, _>>()? {
        for key in [2, 1] {
            let report = fixture.until_status(&reporter, key, "Healthy").await?;
            assert_eq!((report.id, report.detail), (Some(format!("kms-{key}-1")), String::new()));
        }
        let reports = fixture.reports(&reporter.target, &reporter.form, &reporter.node).await?;
        let keys: Vec<_> = reports.iter().map(|report| report.key.as_str()).collect();
        assert_eq!(keys, ["2", "1"], "in the order of --kms-sockets");
        assert_eq!(reporter.count_logged(&["plugin healthy"]), 2, "once per plugin: {}", reporter.log());
    }
    assert_eq!(write.encrypted(), 0, "round trips are off by default");
    Ok(())
}

/// T-P2: any text of a plugin is stored, also control characters that YAML does not allow. Secrets are redacted.
pub async fn any_plugin_message_is_stored(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    let reporters = start_reporters(&fixture, &ONE_TARGET_PER_FORM, &[1])?;
    let special: String = (0..0x11_0000u32)
        .filter_map(char::from_u32)
        .filter(|c| {
            c.is_control()
                || (*c as u32) & 0xfffe == 0xfffe
                || matches!(*c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '🔥')
        })
        .collect();
    let (text, status) = (|text: &str| text.as_bytes().to_vec(), "Unhealthy");
    for (healthz, status, part) in [
        (text("err"), status, "NotOk: err; "),
        (text(""), status, "NotOk: the plugin gave no reason; "),
        (text("OK"), status, "NotOk: OK; "),
        (text(&"x".repeat(5000)), status, "xxx...; check"),
        (text("first\nsecond\r\nthird"), status, "first second  third"),
        (text(r#"a "quote", a \ and a {"brace": 1}"#), status, r#"a "quote", a \ and a {"brace": 1}"#),
        (
            b"not \xff\xfe text".to_vec(),
            "Error",
            "ProtocolError: not a gRPC response: healthz is not valid UTF-8: not ",
        ),
        (
            text("token=hunter2 at https://me:hunter2@vault/v1?x=hunter2 by hvs.hunter2hunter2"),
            status,
            "token=[redacted] at",
        ),
        (text(&format!("begin {special} end")), status, "NotOk: begin "),
        (text("鍵".repeat(3000).as_str()), status, "鍵...; check"),
    ] {
        plugin.script(|script| script.healthz = healthz);
        for reporter in &reporters {
            let report =
                fixture.until_report(reporter, 1, part, |report| report.detail.contains(part)).await?;
            assert_eq!(report.status, status, "{report:?}");
            assert!(
                report.detail.chars().count() <= 1024 && !report.detail.contains("hunter2"),
                "{report:?}"
            );
            // A plugin that responds has a key id, healthy or not.
            assert_eq!(
                report.id.as_deref(),
                Some("kms-1-1").filter(|_| status == "Unhealthy" || reporter.form == "typed")
            );
        }
    }
    plugin.script(|script| {
        *script = Default::default();
        script.key_id = Some(format!("id{special}").into_bytes());
    });
    for reporter in &reporters {
        let report = fixture.until_status(reporter, 1, "Healthy").await?;
        assert!(report.id.is_some_and(|id| id.starts_with("id")));
        assert!(!reporter.log().contains("hunter2"), "a secret is in the log");
        assert_eq!(reporter.count_logged(&["reports published without details"]), 0, "{}", reporter.log());
    }
    Ok(())
}

/// T-P3, five times faster: a plugin below and above the read timeout.
pub async fn plugin_slower_than_timeout_is_an_error(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    plugin.script(|script| script.latency = Duration::from_millis(700));
    let reporter = fixture.reporter("master-0").flag("--read-timeout=1s").start()?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    plugin.script(|script| script.latency = Duration::from_millis(1500));
    let report = fixture.until_status(&reporter, 1, "Error").await?;
    assert!(report.detail.starts_with("Timeout: no response within 1s; check the connection"), "{report:?}");
    assert_eq!(report.id.as_deref(), Some("kms-1-1"), "the last known key id");
    Ok(())
}

/// T-P4, T-P14: one plugin hangs.
pub async fn hanging_plugin_does_not_affect_others(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let (_three, two, _one) = (fixture.start_plugin(3)?, fixture.start_plugin(2)?, fixture.start_plugin(1)?);
    two.script(|script| script.hang = true);
    let reporter = fixture.reporter("master-0").keys(&[3, 2, 1]).flag("--read-timeout=1s").start()?;
    let hung = fixture.until_status(&reporter, 2, "Error").await?;
    assert!(hung.detail.starts_with("Timeout: "), "{hung:?}");
    let first = fixture.until_status(&reporter, 3, "Healthy").await?;
    for key in [3, 1] {
        let report =
            fixture.until_report(&reporter, key, "progress", |report| report.checked > first.checked).await?;
        assert_eq!(report.status, "Healthy");
    }
    let rounds = reporter.rounds().await?;
    let longest = reporter.metric("outrigger_kms_round_duration_seconds_bucket", "le=\"2.5\"").await?;
    assert!(longest >= rounds, "only {longest} of {rounds} rounds were within the read timeout and a write");
    for (key, times) in [(3, "0.5"), (1, "0.5"), (2, "2.5")] {
        let labels = format!("le=\"{times}\",key=\"{key}\"");
        let quick = reporter.metric("outrigger_kms_probe_duration_seconds_bucket", &labels).await?;
        assert!(quick >= rounds, "key {key}: {quick} of {rounds} probes took at most {times} s");
    }
    Ok(())
}

/// T-P5, T-P7: a missing and a stale socket. The upstream reporter waits the whole read timeout for a missing socket.
pub async fn missing_or_stale_socket_is_reported_immediately(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let reporter = fixture.reporter("master-0").flag("--read-timeout=20s").start()?;
    let start = Instant::now();
    let report = fixture.until_status(&reporter, 1, "Error").await?;
    assert!(
        report.detail.starts_with("SocketMissing: socket does not exist; check the state of"),
        "{report:?}"
    );
    assert_eq!(report.id.as_deref(), Some("unknown"), "no key id was ever known");
    assert!(start.elapsed() < Duration::from_secs(10), "reported after {:?}", start.elapsed());
    let plugin = fixture.start_plugin(1)?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    plugin.crash();
    let stale = fixture.until_status(&reporter, 1, "Error").await?;
    assert!(stale.detail.starts_with("ConnectionRefused: connection refused ("), "{stale:?}");
    assert_eq!(stale.id.as_deref(), Some("kms-1-1"));
    plugin.restart()?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// T-P6: the plugin restarts OUTRIGGER_KMS_RESTARTS times (default 50, full form 1000).
pub async fn restarted_plugin_is_found_without_leaks(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    let reporter = fixture.reporter("master-0").interval("50ms").start()?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    let before = reporter.descriptors()?;
    for _ in 0..number("OUTRIGGER_KMS_RESTARTS", 50) {
        plugin.restart()?;
        let calls = plugin.calls().status;
        // A reporter that stays connected to the deleted socket never calls the new one.
        wait::until("a probe of the new socket", Duration::from_secs(10), || async {
            if plugin.calls().status > calls + 1 { Ok(()) } else { Err("no call") }
        })
        .await?;
    }
    fixture.until_status(&reporter, 1, "Healthy").await?;
    let after = reporter.descriptors()?;
    assert!(after <= before + 3, "{before} descriptors before, {after} after");
    Ok(())
}

/// T-P8: an unprivileged reporter and a socket with mode 0600. Also T-S5: it runs as any user.
pub async fn socket_without_permission_is_reported(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    plugin.set_socket_mode(0o600)?;
    let (uid, kubeconfig) = (54_321, fixture.dir.path().join("kubeconfig"));
    std::fs::write(&kubeconfig, fixture.plane.admin().kubeconfig())?;
    for path in [kubeconfig.as_path(), fixture.dir.path()] {
        std::os::unix::fs::chown(path, Some(uid), Some(uid))?;
    }
    let id = uid.to_string();
    let unprivileged = [
        "setpriv",
        "--reuid",
        &id,
        "--regid",
        &id,
        "--clear-groups",
        "--bounding-set=-all",
        "--no-new-privs",
        "--",
    ];
    let reporter = fixture.reporter("master-0").kubeconfig(&kubeconfig).wrapped_by(&unprivileged).start()?;
    let report = fixture.until_status(&reporter, 1, "Error").await?;
    assert!(
        report.detail.starts_with("PermissionDenied: permission denied on socket; compare"),
        "{report:?}"
    );
    plugin.set_socket_mode(0o666)?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// T-P9: listeners that do not speak gRPC.
pub async fn non_grpc_listener_is_an_error(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    let reporter = fixture.reporter("master-0").flag("--read-timeout=700ms").start()?;
    for (manner, cause) in [
        (ConnectionBehavior::http1(), "ProtocolError: "),
        (ConnectionBehavior::Ignore, "Timeout: "),
        (ConnectionBehavior::tls(), "ProtocolError: "),
        (ConnectionBehavior::half_frame(), "Timeout: "),
        (ConnectionBehavior::SendAndClose((0..=255).cycle().take(9999).collect()), "ProtocolError: "),
        (ConnectionBehavior::Ignore, "Timeout: "),
        (ConnectionBehavior::Close, "ProtocolError: "),
        (ConnectionBehavior::Ignore, "Timeout: "),
        (ConnectionBehavior::Reset, "ProtocolError: "),
    ] {
        plugin.set_connection_behavior(manner.clone());
        let report =
            fixture.until_report(&reporter, 1, cause, |report| report.detail.starts_with(cause)).await?;
        assert_eq!(report.status, "Error", "{manner:?}: {report:?}");
    }
    plugin.recover()?;
    plugin.script(|script| script.healthz = vec![b'x'; 1024 * 1024]);
    let long = "response too large";
    fixture.until_report(&reporter, 1, long, |report| report.detail.contains(long)).await?;
    plugin.recover()?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// T-P10, T-P11: versions and key ids that API servers accept and reject.
pub async fn versions_and_key_ids_are_validated(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    let reporter = fixture.reporter("master-0").start()?;
    for (version, key_id, status, part) in [
        ("v1", &b"k1"[..], "Unhealthy", "BadVersion: unsupported plugin version \"v1\""),
        ("", b"k1", "Unhealthy", "BadVersion: unsupported plugin version \"\""),
        ("v2beta1", b"k1", "Healthy", ""),
        ("v2", b"k1", "Unhealthy", "BadVersion: plugin version changed from \"v2beta1\" to \"v2\""),
        ("v2beta1", b"", "Unhealthy", "BadKeyID: the plugin returned no key ID"),
        ("v2beta1", &[b'k'; 1024], "Healthy", ""),
        ("v2beta1", &[b'k'; 1025], "Unhealthy", "BadKeyID: key ID of 1025 bytes is too long"),
        ("v2beta1", b"k\xff", "Error", "ProtocolError: not a gRPC response: key_id is not valid UTF-8"),
    ] {
        plugin.script(|script| {
            script.version = version.into();
            script.key_id = Some(key_id.to_vec());
        });
        let matches = |report: &crate::fixture::ObservedReport| {
            report.status == status && report.detail.starts_with(part)
        };
        fixture.until_report(&reporter, 1, part, matches).await?;
    }
    plugin.script(|script| {
        script.key_id = None;
        script.key_id_changes = true;
    });
    let first = fixture.until_status(&reporter, 1, "Healthy").await?;
    fixture.until_report(&reporter, 1, "another key id", |report| report.id != first.id).await?;
    reporter.until_logged(&["KMS key id changed", "sha256:"]).await?;
    assert!(!reporter.log().contains("kms-1-1-"), "key ids must not be logged");
    Ok(())
}

/// T-P12, T-P13: every gRPC error code, and another gRPC service on the socket.
pub async fn grpc_errors_are_reported_by_code(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    let reporter = fixture.reporter("master-0").interval("100ms").start()?;
    for number in 1..=16 {
        let name = api::kms::RpcCode::new(number).name();
        let message = format!("{name} {}", "denied \"again\"\n".repeat(700));
        plugin.script(|script| script.error = Some((Code::from(number), message)));
        let prefix = format!("RpcError({name}): {name} denied \"again\" ");
        let report =
            fixture.until_report(&reporter, 1, &prefix, |report| report.detail.starts_with(&prefix)).await?;
        assert_eq!((report.status.as_str(), report.detail.chars().count()), ("Error", 1024));
    }
    plugin.recover()?;
    plugin.script(|script| script.wrong_service = true);
    let hint = "the plugin does not support KMS v2; update it";
    fixture.until_report(&reporter, 1, hint, |report| report.detail.contains(hint)).await?;
    Ok(())
}

/// T-P15: a hundred plugins.
pub async fn hundred_plugins_fit_in_one_publish(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let keys: Vec<u32> = (1..=100).rev().collect();
    let plugins: Vec<_> =
        keys.iter().take(50).map(|key| fixture.start_plugin(*key)).collect::<Result<_, _>>()?;
    let long = "sealed ".repeat(400);
    plugins.iter().for_each(|plugin| plugin.script(|script| script.healthz = long.clone().into_bytes()));
    for (target, form) in ONE_TARGET_PER_FORM {
        let reporter = fixture.reporter("master-0").keys(&keys).on(target, form).start()?;
        fixture.until_status(&reporter, 1, "Error").await?;
        let reports = fixture.reports(target, form, "master-0").await?;
        assert_eq!(reports.len(), 100);
        for (report, key) in reports.iter().zip(&keys) {
            assert_eq!(
                (report.key.as_str(), report.status.as_str()),
                (key.to_string().as_str(), if *key > 50 { "Unhealthy" } else { "Error" })
            );
        }
    }
    Ok(())
}

/// Round trips are off by default, and find failures that Status does not report.
pub async fn round_trip_detects_decrypt_failure(cx: Context) -> TestResult {
    use testbed::fakes::kms_plugin::{DecryptFault, EncryptFault};
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    let reporter = fixture.reporter("master-0").flag("--deep-probe-interval=500ms").start()?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    wait::until("a round trip", Duration::from_secs(10), || async {
        if plugin.decrypted() > 0 { Ok(()) } else { Err("none yet") }
    })
    .await?;
    plugin.script(|script| {
        script.decrypt = Some(DecryptFault::Error(Code::PermissionDenied, "kms:Decrypt".into()))
    });
    let prefix = "RoundTripFailed: Decrypt: kms:Decrypt; ";
    let report =
        fixture.until_report(&reporter, 1, prefix, |report| report.detail.starts_with(prefix)).await?;
    assert_eq!((report.status.as_str(), report.id.as_deref()), ("Unhealthy", Some("kms-1-1")));
    plugin.script(|script| {
        script.decrypt = None;
        script.encrypt = Some(EncryptFault::WrongKeyId("other".into()));
    });
    let prefix = "RoundTripFailed: Encrypt used a different key";
    fixture.until_report(&reporter, 1, prefix, |report| report.detail.starts_with(prefix)).await?;
    plugin.recover()?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// Returns a number from the environment, for the full forms of shortened scenarios.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
