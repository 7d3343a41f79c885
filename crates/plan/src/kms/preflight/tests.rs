//! Preflight decisions without a cluster.

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn wanted() -> RequestedCheck {
    RequestedCheck { hash: "cuZm_g==".into(), fingerprint: Some("f".into()) }
}

fn running() -> PreflightPod {
    PreflightPod {
        hash: Some("cuZm_g==".into()),
        fingerprint: Some("f".into()),
        attempt: 1,
        pod_count: 1,
        phase: "Running".into(),
        started_at: Some(at(0)),
        ..PreflightPod::default()
    }
}

fn reported(succeeded: bool) -> PreflightPod {
    let result = PodResult { succeeded, message: "why".into(), reported_at: Some(at(10)) };
    PreflightPod {
        result: Some(result),
        posted_hash: Some("cuZm_g==".into()),
        remote_key_id: Some("kek".into()),
        phase: if succeeded { "Succeeded" } else { "Failed" }.into(),
        ..running()
    }
}

fn input<'a>(wanted: &'a RequestedCheck, pods: &'a [PreflightPod]) -> PreflightInput<'a> {
    PreflightInput {
        requested: Some(wanted),
        stored: None,
        pods,
        retry: None,
        handled_retry: None,
        pending_attempt: None,
        failed_since: None,
        retry_after: &RETRY_AFTER,
        now: at(20),
    }
}

fn stored(succeeded: bool) -> StoredResult {
    StoredResult { succeeded, hash: "cuZm_g==".into() }
}

fn reason(decision: &Decision) -> &str {
    decision.degraded.as_ref().map_or("", |problem| &problem.reason)
}

#[test]
fn unneeded_or_successful_check_is_cleaned_up() {
    let (wanted, good) = (wanted(), stored(true));
    for pods in [&[][..], &[running()], &[reported(false)]] {
        let act = if pods.is_empty() { PreflightAction::Nothing } else { PreflightAction::CleanUp };
        let not_required = PreflightInput { requested: None, ..input(&wanted, pods) };
        assert_eq!(decide(&not_required), Decision::act(act.clone()));
        let proved = PreflightInput { stored: Some(&good), ..input(&wanted, pods) };
        assert_eq!(decide(&proved), Decision::act(act));
    }
}

#[test]
fn check_starts_without_pod_and_result() {
    let wanted = wanted();
    let other = StoredResult { succeeded: true, hash: "other___".into() };
    for stored in [None, Some(&other)] {
        let decision = decide(&PreflightInput { stored, ..input(&wanted, &[]) });
        assert_eq!((decision.action, decision.degraded), (PreflightAction::Deploy { attempt: 1 }, None));
        assert!(decision.progressing.is_some());
    }
}

#[test]
fn pod_of_other_configuration_is_deleted() {
    let wanted = wanted();
    for mut pod in
        [running(), reported(true), reported(false), PreflightPod { phase: "Failed".into(), ..running() }]
    {
        for change in [
            |pod: &mut PreflightPod| pod.hash = Some("other___".into()),
            |pod: &mut PreflightPod| pod.hash = None,
            |pod: &mut PreflightPod| pod.fingerprint = Some("g".into()),
            |pod: &mut PreflightPod| pod.posted_hash = Some("other___".into()),
        ] {
            let before = pod.clone();
            change(&mut pod);
            let decision = decide(&input(&wanted, std::slice::from_ref(&pod)));
            assert_eq!(
                (&decision.action, &decision.result, &decision.degraded),
                (&PreflightAction::CleanUp, &None, &None)
            );
            assert!(decision.progressing.is_some() && decision.requeue_after.is_some());
            pod = before;
        }
    }
}

#[test]
fn success_is_stored_and_pod_deleted() {
    let decision = decide(&input(&wanted(), &[reported(true)]));
    assert_eq!(decision.action, PreflightAction::CleanUp);
    assert_eq!(decision.result, Some(CheckResult { succeeded: true, remote_key_id: Some("kek".into()) }));
    assert_eq!((decision.degraded, decision.progressing), (None, None));
}

/// A failed check terminates its pod with an error, but the reported result must still be read.
#[test]
fn failure_is_stored_once_and_pod_kept() {
    let (wanted, bad) = (wanted(), stored(false));
    let pods = [reported(false)];
    let first = decide(&input(&wanted, &pods));
    assert_eq!(first.result, Some(CheckResult { succeeded: false, remote_key_id: Some("kek".into()) }));
    assert_eq!((&first.action, reason(&first)), (&PreflightAction::Nothing, "PreflightCheckFailed"));
    assert_eq!(first.progressing, None);
    let second = decide(&PreflightInput { stored: Some(&bad), ..input(&wanted, &pods) });
    assert_eq!((&second.action, second.result), (&PreflightAction::Nothing, None));
    assert_eq!(second.degraded, first.degraded);
}

#[test]
fn failed_check_is_retried_with_backoff() {
    let (wanted, bad) = (wanted(), stored(false));
    for (attempt, pause) in [(1, 60), (2, 300), (3, 900), (4, 900), (99, 900)] {
        let pods = [PreflightPod { attempt, ..reported(false) }];
        let when = |seconds: i64| {
            decide(&PreflightInput { stored: Some(&bad), now: at(10 + seconds), ..input(&wanted, &pods) })
        };
        let before = when(pause - 1);
        assert_eq!(
            (&before.action, before.requeue_after),
            (&PreflightAction::Nothing, Some(Duration::from_secs(1))),
            "{attempt}"
        );
        let after = when(pause);
        assert_eq!(after.action, PreflightAction::Deploy { attempt: attempt + 1 });
        assert_eq!(reason(&after), "PreflightCheckFailed");
    }
}

#[test]
fn retry_annotation_triggers_immediate_retry() {
    let (wanted, bad) = (wanted(), stored(false));
    let pods = [PreflightPod { retry: Some("a".into()), ..reported(false) }];
    let with_annotation =
        |retry| decide(&PreflightInput { stored: Some(&bad), retry, ..input(&wanted, &pods) }).action;
    assert_eq!(with_annotation(Some("a")), PreflightAction::Nothing);
    assert_eq!(with_annotation(Some("")), PreflightAction::Nothing);
    assert_eq!(with_annotation(None), PreflightAction::Nothing);
    assert_eq!(with_annotation(Some("b")), PreflightAction::Deploy { attempt: 2 });
    let without = |retry, handled_retry| {
        decide(&PreflightInput { stored: Some(&bad), retry, handled_retry, ..input(&wanted, &[]) }).action
    };
    assert_eq!(without(None, None), PreflightAction::Nothing);
    assert_eq!(without(Some("a"), Some("a")), PreflightAction::Nothing);
    assert_eq!(without(Some("a"), None), PreflightAction::Deploy { attempt: 1 });
}

#[test]
fn pending_attempt_continues_after_pod_deletion() {
    let (wanted, bad) = (wanted(), stored(false));
    let decision =
        decide(&PreflightInput { stored: Some(&bad), pending_attempt: Some(4), ..input(&wanted, &[]) });
    assert_eq!(decision.action, PreflightAction::Deploy { attempt: 4 });
}

#[test]
fn failure_without_pod_is_retried_after_longest_delay() {
    let (wanted, bad) = (wanted(), stored(false));
    let when = |now| {
        decide(&PreflightInput { stored: Some(&bad), failed_since: Some(at(0)), now, ..input(&wanted, &[]) })
    };
    let early = when(at(899));
    assert_eq!((&early.action, reason(&early)), (&PreflightAction::Nothing, "PreflightCheckFailed"));
    assert_eq!(when(at(900)).action, PreflightAction::Deploy { attempt: 1 });
}

#[test]
fn pod_without_result_is_reported_and_retried() {
    let wanted = wanted();
    let ended =
        PreflightProblem { reason: "OOMKilled".into(), message: "container x exited with code 137".into() };
    for (phase, ended, expected) in [
        ("Failed", Some(ended), "OOMKilled"),
        ("Failed", None, "Unknown"),
        ("Succeeded", None, "PodCompletedWithoutResult"),
    ] {
        let pods =
            [PreflightPod { phase: phase.into(), failure: ended, finished_at: Some(at(0)), ..running() }];
        let decision = decide(&input(&wanted, &pods));
        assert_eq!((&decision.action, reason(&decision)), (&PreflightAction::Nothing, expected));
        assert_eq!(decision.result, None, "no result is stored");
        let later = decide(&PreflightInput { now: at(60), ..input(&wanted, &pods) });
        assert_eq!(later.action, PreflightAction::Deploy { attempt: 2 });
    }
}

#[test]
fn stuck_pod_is_reported_after_timeout() {
    let wanted = wanted();
    let waiting =
        PreflightProblem { reason: "ImagePullBackOff".into(), message: "container plugin is waiting".into() };
    let pods = [PreflightPod { phase: "Pending".into(), waiting: Some(waiting), ..running() }];
    for (now, expected) in [(at(180), ""), (at(181), "ImagePullBackOff")] {
        let decision = decide(&PreflightInput { now, ..input(&wanted, &pods) });
        assert_eq!((&decision.action, reason(&decision)), (&PreflightAction::Nothing, expected));
        assert!(decision.progressing.is_some() && decision.requeue_after == Some(REQUEUE_AFTER));
    }
    let silent = decide(&PreflightInput { now: at(181), ..input(&wanted, &[running()]) });
    assert_eq!(reason(&silent), "PreflightTimeout");
}

#[test]
fn terminating_pods_are_awaited() {
    let pods = [PreflightPod { is_terminating: true, hash: None, ..running() }];
    let decision = decide(&input(&wanted(), &pods));
    assert_eq!((&decision.action, decision.requeue_after), (&PreflightAction::Nothing, Some(REQUEUE_AFTER)));
}

#[test]
fn all_pods_must_succeed_and_one_failure_suffices() {
    let wanted = wanted();
    let act = |pods: &[PreflightPod]| {
        let decision = decide(&input(&wanted, pods));
        (decision.action, decision.result.map(|proved| proved.succeeded))
    };
    assert_eq!(act(&[reported(true), running()]), (PreflightAction::Nothing, None));
    assert_eq!(act(&[reported(true), reported(true)]), (PreflightAction::CleanUp, Some(true)));
    assert_eq!(act(&[reported(true), reported(false), running()]), (PreflightAction::Nothing, Some(false)));
}

#[test]
fn missing_pod_restarts_check_unless_it_failed() {
    let wanted = wanted();
    let one_of_two = |pod: PreflightPod| [PreflightPod { pod_count: 2, attempt: 3, ..pod }];
    for pod in [running(), reported(true)] {
        let decision = decide(&input(&wanted, &one_of_two(pod)));
        assert_eq!((decision.action, decision.result), (PreflightAction::Deploy { attempt: 3 }, None));
    }
    let failed = decide(&input(&wanted, &one_of_two(reported(false))));
    assert_eq!((&failed.action, reason(&failed)), (&PreflightAction::Nothing, "PreflightCheckFailed"));
}

#[test]
fn every_failed_node_is_named() {
    let wanted = wanted();
    let on = |node: &str, pod: PreflightPod| PreflightPod { pod_count: 3, node: Some(node.into()), ..pod };
    let pods = [on("a", reported(false)), on("b", reported(true)), on("c", reported(false))];
    let message = decide(&input(&wanted, &pods)).degraded.unwrap().message;
    assert_eq!(message, "node a: why; node c: why (attempt 1; next attempt after 60s)");
}

#[test]
fn each_node_has_a_pod_with_matching_rbac() {
    let vault = serde_json::json!({
        "kmsPluginImage": "registry.example.com/plugin@sha256:0", "vaultAddress": "https://vault.example.com",
        "vaultKeyPath": "transit/keys/my-key",
        "authentication": { "type": "AppRole", "appRole": { "secret": { "name": "s" } } },
    });
    let values: std::collections::BTreeMap<String, Vec<u8>> =
        ["role-id", "secret-id"].map(|key| (key.to_owned(), b"x".to_vec())).into();
    let kms = serde_json::json!({ "type": "Vault", "vault": vault });
    let content = build_candidate(&kms, None, |_| Some(values.clone())).unwrap();
    let config = PreflightPodConfig {
        namespace: "n".into(),
        image: "i".into(),
        command: vec!["c".into()],
        host_network: true,
        node_label: None,
        call_timeout: "5s".into(),
    };
    let workload =
        PreflightWorkload { content: &content, hash: "cuZm_g==", fingerprint: "f", attempt: 2, retry: None };
    let long = "n".repeat(253);
    let nodes = ["a.b".to_owned(), long.clone()];
    let rendered = render_pods(&config, &workload, &nodes).unwrap();
    let names: Vec<String> = rendered.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
    assert_eq!(names[0], "kms-preflight-a.b");
    assert_eq!(names[1].len(), "kms-preflight-".len() + 64);
    let observed: Vec<PreflightPod> = rendered.iter().map(PreflightPod::from_pod).collect();
    assert_eq!(
        (observed[0].node.as_deref(), observed[1].node.as_deref()),
        (Some("a.b"), Some(long.as_str()))
    );
    assert!(observed.iter().all(|pod| pod.pod_count == 2 && pod.attempt == 2));
    let rules = render_role("n", &nodes).unwrap().rules.unwrap();
    assert_eq!(rules[0].resource_names.as_ref(), Some(&names));
    let alone = render_pods(&config, &workload, &[]).unwrap();
    assert_eq!(alone[0].metadata.name.as_deref(), Some("kms-preflight"));
    assert_eq!(PreflightPod::from_pod(&alone[0]).node, None);
}

/// The main container only reports that it waits for the plugins.
#[test]
fn init_container_problem_takes_precedence() {
    let waits = |name: &str, reason: &str| serde_json::json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": { "waiting": { "reason": reason } } });
    let pod = serde_json::from_value(serde_json::json!({
        "metadata": { "annotations": { "outrigger.dev/kms-preflight-attempt": "3" } },
        "status": {
            "phase": "Pending",
            "startTime": "2026-05-18T10:00:00Z",
            "initContainerStatuses": [waits("vault-kms-plugin-1", "ImagePullBackOff")],
            "containerStatuses": [waits("kms-preflight-check", "PodInitializing")],
        },
    }));
    let observed = PreflightPod::from_pod(&pod.unwrap());
    assert_eq!(observed.waiting.unwrap().reason, "ImagePullBackOff");
    assert_eq!((observed.attempt, observed.phase.as_str()), (3, "Pending"));
    assert!(observed.started_at.is_some());
}
