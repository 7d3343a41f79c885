//! Plugins that are well, and sick in every way: what stands in the object.

use std::time::{Duration, Instant};

use testbed::fakes::kms_plugin::Manner;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};
use tonic::Code;

use crate::ground::{FORMS, Ground};
use crate::reporter::Reporter;

/// The forms that differ, each once.
const ONE_OF_EACH: [(&str, &str); 3] =
    [("kubeapiserver", "condition"), ("authentication", "typed"), ("kmshealth", "kmshealth")];

fn reporters(ground: &Ground<'_>, forms: &[(&str, &str)], keys: &[u32]) -> Result<Vec<Reporter>, Error> {
    forms
        .iter()
        .map(|(target, form)| ground.reporter("master-0").keys(keys).on(target, form).start())
        .collect()
}

/// T-P1.
pub async fn a_healthy_plugin_is_reported_in_every_form_on_every_kind(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let (write, _read) = (ground.plugin(2)?, ground.plugin(1)?);
    // Two forms on one object are two nodes: a node has one manager, and each of its applies is all that it says.
    let start = |(target, form): &(&str, &str)| ground.reporter(form).keys(&[2, 1]).on(target, form).start();
    for reporter in FORMS.iter().map(start).collect::<Result<Vec<_>, _>>()? {
        for key in [2, 1] {
            let report = ground.status(&reporter, key, "Healthy").await?;
            assert_eq!((report.id, report.detail), (Some(format!("kms-{key}-1")), String::new()));
        }
        let reports = ground.reports(&reporter.target, &reporter.form, &reporter.node).await?;
        let keys: Vec<_> = reports.iter().map(|report| report.key.as_str()).collect();
        assert_eq!(keys, ["2", "1"], "in the order of the flag");
        assert_eq!(reporter.told(&["the plugin is healthy"]), 2, "once for each plugin: {}", reporter.log());
    }
    assert_eq!(write.encrypted(), 0, "nothing is encrypted unless that was asked for");
    Ok(())
}

/// T-P2, and every character that an apply cannot carry (1.9).
pub async fn whatever_a_plugin_says_is_stored(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    let reporters = reporters(&ground, &ONE_OF_EACH, &[1])?;
    let odd: String = (0..0x11_0000u32)
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
        (text(&"x".repeat(5000)), status, "xxx...; look at"),
        (text("first\nsecond\r\nthird"), status, "first second  third"),
        (text(r#"a "quote", a \ and a {"brace": 1}"#), status, r#"a "quote", a \ and a {"brace": 1}"#),
        (
            b"not \xff\xfe text".to_vec(),
            "Error",
            "ProtocolError: not a gRPC response: healthz is no UTF-8: not ",
        ),
        (
            text("token=hunter2 at https://me:hunter2@vault/v1?x=hunter2 by hvs.hunter2hunter2"),
            status,
            "token=[redacted] at",
        ),
        (text(&format!("begin {odd} end")), status, "NotOk: begin "),
        (text("鍵".repeat(3000).as_str()), status, "鍵...; look at"),
    ] {
        plugin.script(|script| script.healthz = healthz);
        for reporter in &reporters {
            let report = ground.until(reporter, 1, part, |report| report.detail.contains(part)).await?;
            assert_eq!(report.status, status, "{report:?}");
            assert!(
                report.detail.chars().count() <= 1024 && !report.detail.contains("hunter2"),
                "{report:?}"
            );
            // A plugin that answers has a key, well or not.
            assert_eq!(
                report.id.as_deref(),
                Some("kms-1-1").filter(|_| status == "Unhealthy" || reporter.form == "typed")
            );
        }
    }
    plugin.script(|script| {
        *script = Default::default();
        script.key_id = Some(format!("id{odd}").into_bytes());
    });
    for reporter in &reporters {
        let report = ground.status(reporter, 1, "Healthy").await?;
        assert!(report.id.is_some_and(|id| id.starts_with("id")));
        assert!(!reporter.log().contains("hunter2"), "a secret is in the log");
        assert_eq!(reporter.told(&["reports are published without details"]), 0, "{}", reporter.log());
    }
    Ok(())
}

/// T-P3, with a fifth of the times.
pub async fn a_slow_plugin_is_well_and_one_that_is_too_slow_is_not(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    plugin.script(|script| script.latency = Duration::from_millis(700));
    let reporter = ground.reporter("master-0").flag("--read-timeout=1s").start()?;
    ground.status(&reporter, 1, "Healthy").await?;
    plugin.script(|script| script.latency = Duration::from_millis(1500));
    let report = ground.status(&reporter, 1, "Error").await?;
    assert!(report.detail.starts_with("Timeout: no response within 1s; look at the way"), "{report:?}");
    assert_eq!(report.id.as_deref(), Some("kms-1-1"), "the last one that was known");
    Ok(())
}

/// T-P4, and T-P14: the reports of those that are well go on, whatever one does.
pub async fn a_plugin_that_hangs_costs_no_other_anything(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let (_three, two, _one) = (ground.plugin(3)?, ground.plugin(2)?, ground.plugin(1)?);
    two.script(|script| script.hang = true);
    let reporter = ground.reporter("master-0").keys(&[3, 2, 1]).flag("--read-timeout=1s").start()?;
    let hung = ground.status(&reporter, 2, "Error").await?;
    assert!(hung.detail.starts_with("Timeout: "), "{hung:?}");
    let first = ground.status(&reporter, 3, "Healthy").await?;
    for key in [3, 1] {
        let report =
            ground.until(&reporter, key, "progress", |report| report.checked > first.checked).await?;
        assert_eq!(report.status, "Healthy");
    }
    let rounds = reporter.rounds().await?;
    let longest = reporter.metric("outrigger_kms_round_duration_seconds_bucket", "le=\"2.5\"").await?;
    assert!(
        longest >= rounds,
        "of {rounds} rounds only {longest} took less than the read timeout and a write"
    );
    for (key, times) in [(3, "0.5"), (1, "0.5"), (2, "2.5")] {
        let labels = format!("le=\"{times}\",key=\"{key}\"");
        let quick = reporter.metric("outrigger_kms_probe_duration_seconds_bucket", &labels).await?;
        assert!(quick >= rounds, "key {key}: {quick} of {rounds} looks took {times} s at most");
    }
    Ok(())
}

/// T-P5, T-P7, and the hazard that upstream waits a whole read timeout for a socket that is not there.
pub async fn a_socket_that_is_missing_or_stale_is_told_at_once_and_its_return_too(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let reporter = ground.reporter("master-0").flag("--read-timeout=20s").start()?;
    let begin = Instant::now();
    let report = ground.status(&reporter, 1, "Error").await?;
    assert!(
        report.detail.starts_with("SocketMissing: socket does not exist; look at the state of"),
        "{report:?}"
    );
    assert_eq!(report.id.as_deref(), Some("unknown"), "no key was ever known");
    assert!(begin.elapsed() < Duration::from_secs(10), "told after {:?}", begin.elapsed());
    let plugin = ground.plugin(1)?;
    ground.status(&reporter, 1, "Healthy").await?;
    plugin.crash();
    let stale = ground.status(&reporter, 1, "Error").await?;
    assert!(stale.detail.starts_with("ConnectionRefused: connection refused ("), "{stale:?}");
    assert_eq!(stale.id.as_deref(), Some("kms-1-1"));
    plugin.restart()?;
    ground.status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// T-P6. A thousand restarts with OUTRIGGER_KMS_RESTARTS=1000; by default fifty.
pub async fn a_plugin_that_restarts_is_found_each_time_and_costs_no_descriptor(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    let reporter = ground.reporter("master-0").every("50ms").start()?;
    ground.status(&reporter, 1, "Healthy").await?;
    let before = reporter.descriptors()?;
    for _ in 0..number("OUTRIGGER_KMS_RESTARTS", 50) {
        plugin.restart()?;
        let asked = plugin.calls().status;
        // A reporter that stays on the deleted socket never asks again.
        wait::until("a look at the new socket", Duration::from_secs(10), || async {
            if plugin.calls().status > asked + 1 { Ok(()) } else { Err("nobody asks") }
        })
        .await?;
    }
    ground.status(&reporter, 1, "Healthy").await?;
    let after = reporter.descriptors()?;
    assert!(after <= before + 3, "{before} descriptors before, {after} after");
    Ok(())
}

/// T-P8: a reporter without rights, and a socket that is not for it. Also T-S5: it runs as any user.
pub async fn a_socket_that_may_not_be_opened_is_told_as_such(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    plugin.set_mode(0o600)?;
    let (uid, kubeconfig) = (54_321, ground.folder.path().join("kubeconfig"));
    std::fs::write(&kubeconfig, ground.plane.admin().kubeconfig())?;
    for path in [kubeconfig.as_path(), ground.folder.path()] {
        std::os::unix::fs::chown(path, Some(uid), Some(uid))?;
    }
    let id = uid.to_string();
    let without_rights = [
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
    let reporter = ground.reporter("master-0").by(&kubeconfig).through(&without_rights).start()?;
    let report = ground.status(&reporter, 1, "Error").await?;
    assert!(
        report.detail.starts_with("PermissionDenied: permission denied on socket; compare"),
        "{report:?}"
    );
    plugin.set_mode(0o666)?;
    ground.status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// T-P9.
pub async fn who_does_not_speak_grpc_is_no_plugin(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    let reporter = ground.reporter("master-0").flag("--read-timeout=700ms").start()?;
    for (manner, cause) in [
        (Manner::http1(), "ProtocolError: "),
        (Manner::Ignore, "Timeout: "),
        (Manner::tls(), "ProtocolError: "),
        (Manner::half_frame(), "Timeout: "),
        (Manner::SendAndClose((0..=255).cycle().take(9999).collect()), "ProtocolError: "),
        (Manner::Ignore, "Timeout: "),
        (Manner::Close, "ProtocolError: "),
        (Manner::Ignore, "Timeout: "),
        (Manner::Reset, "ProtocolError: "),
    ] {
        plugin.meet(manner.clone());
        let report = ground.until(&reporter, 1, cause, |report| report.detail.starts_with(cause)).await?;
        assert_eq!(report.status, "Error", "{manner:?}: {report:?}");
    }
    plugin.heal()?;
    plugin.script(|script| script.healthz = vec![b'x'; 1024 * 1024]);
    let long = "the answer is too long";
    ground.until(&reporter, 1, long, |report| report.detail.contains(long)).await?;
    plugin.heal()?;
    ground.status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// T-P10 and T-P11.
pub async fn versions_and_key_ids_are_judged_as_an_api_server_does(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    let reporter = ground.reporter("master-0").start()?;
    for (version, key_id, status, part) in [
        ("v1", &b"k1"[..], "Unhealthy", "BadVersion: unsupported plugin version \"v1\""),
        ("", b"k1", "Unhealthy", "BadVersion: unsupported plugin version \"\""),
        ("v2beta1", b"k1", "Healthy", ""),
        ("v2", b"k1", "Unhealthy", "BadVersion: plugin version changed from \"v2beta1\" to \"v2\""),
        ("v2beta1", b"", "Unhealthy", "BadKeyID: the plugin returned no key ID"),
        ("v2beta1", &[b'k'; 1024], "Healthy", ""),
        ("v2beta1", &[b'k'; 1025], "Unhealthy", "BadKeyID: key ID of 1025 bytes is too long"),
        ("v2beta1", b"k\xff", "Error", "ProtocolError: not a gRPC response: key_id is no UTF-8"),
    ] {
        plugin.script(|script| {
            script.version = version.into();
            script.key_id = Some(key_id.to_vec());
        });
        let as_wanted =
            |report: &crate::ground::Seen| report.status == status && report.detail.starts_with(part);
        ground.until(&reporter, 1, part, as_wanted).await?;
    }
    plugin.script(|script| {
        script.key_id = None;
        script.key_id_changes = true;
    });
    let first = ground.status(&reporter, 1, "Healthy").await?;
    ground.until(&reporter, 1, "another id", |report| report.id != first.id).await?;
    reporter.until_told(&["the plugin uses another key of its KMS", "sha256:"]).await?;
    assert!(!reporter.log().contains("kms-1-1-"), "ids are not logged");
    Ok(())
}

/// T-P12 and T-P13.
pub async fn every_error_of_a_plugin_is_told_by_its_code(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    let reporter = ground.reporter("master-0").every("100ms").start()?;
    for number in 1..=16 {
        let name = api::kms::RpcCode::new(number).name();
        let message = format!("{name} {}", "denied \"again\"\n".repeat(700));
        plugin.script(|script| script.error = Some((Code::from(number), message)));
        let begin = format!("RpcError({name}): {name} denied \"again\" ");
        let report = ground.until(&reporter, 1, &begin, |report| report.detail.starts_with(&begin)).await?;
        assert_eq!((report.status.as_str(), report.detail.chars().count()), ("Error", 1024));
    }
    plugin.heal()?;
    plugin.script(|script| script.other_service = true);
    let hint = "the plugin does not speak KMS v2; update it";
    ground.until(&reporter, 1, hint, |report| report.detail.contains(hint)).await?;
    Ok(())
}

/// T-P15.
pub async fn a_hundred_sockets_are_one_report(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let keys: Vec<u32> = (1..=100).rev().collect();
    let plugins: Vec<_> = keys.iter().take(50).map(|key| ground.plugin(*key)).collect::<Result<_, _>>()?;
    let long = "sealed ".repeat(400);
    plugins.iter().for_each(|plugin| plugin.script(|script| script.healthz = long.clone().into_bytes()));
    for (target, form) in ONE_OF_EACH {
        let reporter = ground.reporter("master-0").keys(&keys).on(target, form).start()?;
        ground.status(&reporter, 1, "Error").await?;
        let reports = ground.reports(target, form, "master-0").await?;
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

/// The deep look is off by default, and finds what Status does not tell.
pub async fn a_deep_look_finds_a_plugin_that_cannot_decrypt(cx: Context) -> TestResult {
    use testbed::fakes::kms_plugin::{DecryptFault, EncryptFault};
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    let reporter = ground.reporter("master-0").flag("--deep-probe-interval=500ms").start()?;
    ground.status(&reporter, 1, "Healthy").await?;
    wait::until("a round trip", Duration::from_secs(10), || async {
        if plugin.decrypted() > 0 { Ok(()) } else { Err("none yet") }
    })
    .await?;
    plugin.script(|script| {
        script.decrypt = Some(DecryptFault::Error(Code::PermissionDenied, "kms:Decrypt".into()))
    });
    let begin = "RoundTripFailed: Decrypt: kms:Decrypt; ";
    let report = ground.until(&reporter, 1, begin, |report| report.detail.starts_with(begin)).await?;
    assert_eq!((report.status.as_str(), report.id.as_deref()), ("Unhealthy", Some("kms-1-1")));
    plugin.script(|script| {
        script.decrypt = None;
        script.encrypt = Some(EncryptFault::OtherKeyId("other".into()));
    });
    let begin = "RoundTripFailed: Encrypt used a different key";
    ground.until(&reporter, 1, begin, |report| report.detail.starts_with(begin)).await?;
    plugin.heal()?;
    ground.status(&reporter, 1, "Healthy").await?;
    Ok(())
}

/// A number from the environment: the long forms of compressed scenarios.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
