//! Preflight decisions without a cluster.

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn wanted() -> Wanted {
    Wanted { hash: "cuZm_g==".into(), fingerprint: Some("f".into()) }
}

fn running() -> SeenPod {
    SeenPod {
        hash: Some("cuZm_g==".into()),
        fingerprint: Some("f".into()),
        attempt: 1,
        of: 1,
        phase: "Running".into(),
        begun: Some(at(0)),
        ..SeenPod::default()
    }
}

fn reported(succeeded: bool) -> SeenPod {
    let result = Reported { succeeded, message: "why".into(), at: Some(at(10)) };
    SeenPod {
        result: Some(result),
        posted_hash: Some("cuZm_g==".into()),
        remote_key_id: Some("kek".into()),
        phase: if succeeded { "Succeeded" } else { "Failed" }.into(),
        ..running()
    }
}

fn input<'a>(wanted: &'a Wanted, pods: &'a [SeenPod]) -> Situation<'a> {
    Situation {
        wanted: Some(wanted),
        stored: None,
        pods,
        retry: None,
        honoured: None,
        begun: None,
        failed_since: None,
        retry_after: &RETRY_AFTER,
        now: at(20),
    }
}

fn stored(succeeded: bool) -> Stored {
    Stored { succeeded, hash: "cuZm_g==".into() }
}

fn reason(decision: &Decision) -> &str {
    decision.degraded.as_ref().map_or("", |problem| &problem.reason)
}

#[test]
fn unneeded_or_successful_check_is_cleaned_up() {
    let (wanted, good) = (wanted(), stored(true));
    for pods in [&[][..], &[running()], &[reported(false)]] {
        let act = if pods.is_empty() { Act::Nothing } else { Act::CleanUp };
        let not_required = Situation { wanted: None, ..input(&wanted, pods) };
        assert_eq!(decide(&not_required), Decision::act(act.clone()));
        let proved = Situation { stored: Some(&good), ..input(&wanted, pods) };
        assert_eq!(decide(&proved), Decision::act(act));
    }
}

#[test]
fn check_starts_without_pod_and_result() {
    let wanted = wanted();
    let other = Stored { succeeded: true, hash: "other___".into() };
    for stored in [None, Some(&other)] {
        let decision = decide(&Situation { stored, ..input(&wanted, &[]) });
        assert_eq!((decision.act, decision.degraded), (Act::Deploy { attempt: 1 }, None));
        assert!(decision.progressing.is_some());
    }
}

#[test]
fn pod_of_other_configuration_is_deleted() {
    let wanted = wanted();
    for mut pod in
        [running(), reported(true), reported(false), SeenPod { phase: "Failed".into(), ..running() }]
    {
        for change in [
            |pod: &mut SeenPod| pod.hash = Some("other___".into()),
            |pod: &mut SeenPod| pod.hash = None,
            |pod: &mut SeenPod| pod.fingerprint = Some("g".into()),
            |pod: &mut SeenPod| pod.posted_hash = Some("other___".into()),
        ] {
            let before = pod.clone();
            change(&mut pod);
            let decision = decide(&input(&wanted, std::slice::from_ref(&pod)));
            assert_eq!((&decision.act, &decision.prove, &decision.degraded), (&Act::CleanUp, &None, &None));
            assert!(decision.progressing.is_some() && decision.again.is_some());
            pod = before;
        }
    }
}

#[test]
fn success_is_stored_and_pod_deleted() {
    let decision = decide(&input(&wanted(), &[reported(true)]));
    assert_eq!(decision.act, Act::CleanUp);
    assert_eq!(decision.prove, Some(Proved { succeeded: true, remote_key_id: Some("kek".into()) }));
    assert_eq!((decision.degraded, decision.progressing), (None, None));
}

/// A failed check terminates its pod with an error, but the reported result must still be read.
#[test]
fn failure_is_stored_once_and_pod_kept() {
    let (wanted, bad) = (wanted(), stored(false));
    let pods = [reported(false)];
    let first = decide(&input(&wanted, &pods));
    assert_eq!(first.prove, Some(Proved { succeeded: false, remote_key_id: Some("kek".into()) }));
    assert_eq!((&first.act, reason(&first)), (&Act::Nothing, "PreflightCheckFailed"));
    assert_eq!(first.progressing, None);
    let second = decide(&Situation { stored: Some(&bad), ..input(&wanted, &pods) });
    assert_eq!((&second.act, second.prove), (&Act::Nothing, None));
    assert_eq!(second.degraded, first.degraded);
}

#[test]
fn failed_check_is_retried_with_backoff() {
    let (wanted, bad) = (wanted(), stored(false));
    for (attempt, pause) in [(1, 60), (2, 300), (3, 900), (4, 900), (99, 900)] {
        let pods = [SeenPod { attempt, ..reported(false) }];
        let when = |seconds: i64| {
            decide(&Situation { stored: Some(&bad), now: at(10 + seconds), ..input(&wanted, &pods) })
        };
        let before = when(pause - 1);
        assert_eq!((&before.act, before.again), (&Act::Nothing, Some(Duration::from_secs(1))), "{attempt}");
        let after = when(pause);
        assert_eq!(after.act, Act::Deploy { attempt: attempt + 1 });
        assert_eq!(reason(&after), "PreflightCheckFailed");
    }
}

#[test]
fn retry_annotation_triggers_immediate_retry() {
    let (wanted, bad) = (wanted(), stored(false));
    let pods = [SeenPod { retry: Some("a".into()), ..reported(false) }];
    let with_annotation =
        |retry| decide(&Situation { stored: Some(&bad), retry, ..input(&wanted, &pods) }).act;
    assert_eq!(with_annotation(Some("a")), Act::Nothing);
    assert_eq!(with_annotation(Some("")), Act::Nothing);
    assert_eq!(with_annotation(None), Act::Nothing);
    assert_eq!(with_annotation(Some("b")), Act::Deploy { attempt: 2 });
    let without = |retry, honoured| {
        decide(&Situation { stored: Some(&bad), retry, honoured, ..input(&wanted, &[]) }).act
    };
    assert_eq!(without(None, None), Act::Nothing);
    assert_eq!(without(Some("a"), Some("a")), Act::Nothing);
    assert_eq!(without(Some("a"), None), Act::Deploy { attempt: 1 });
}

#[test]
fn pending_attempt_continues_after_pod_deletion() {
    let (wanted, bad) = (wanted(), stored(false));
    let decision = decide(&Situation { stored: Some(&bad), begun: Some(4), ..input(&wanted, &[]) });
    assert_eq!(decision.act, Act::Deploy { attempt: 4 });
}

#[test]
fn failure_without_pod_is_retried_after_longest_delay() {
    let (wanted, bad) = (wanted(), stored(false));
    let when = |now| {
        decide(&Situation { stored: Some(&bad), failed_since: Some(at(0)), now, ..input(&wanted, &[]) })
    };
    let early = when(at(899));
    assert_eq!((&early.act, reason(&early)), (&Act::Nothing, "PreflightCheckFailed"));
    assert_eq!(when(at(900)).act, Act::Deploy { attempt: 1 });
}

#[test]
fn pod_without_result_is_reported_and_retried() {
    let wanted = wanted();
    let ended = Trouble { reason: "OOMKilled".into(), message: "container x exited with code 137".into() };
    for (phase, ended, expected) in [
        ("Failed", Some(ended), "OOMKilled"),
        ("Failed", None, "Unknown"),
        ("Succeeded", None, "PodCompletedWithoutResult"),
    ] {
        let pods = [SeenPod { phase: phase.into(), ended, finished: Some(at(0)), ..running() }];
        let decision = decide(&input(&wanted, &pods));
        assert_eq!((&decision.act, reason(&decision)), (&Act::Nothing, expected));
        assert_eq!(decision.prove, None, "no result is stored");
        let later = decide(&Situation { now: at(60), ..input(&wanted, &pods) });
        assert_eq!(later.act, Act::Deploy { attempt: 2 });
    }
}

#[test]
fn stuck_pod_is_reported_after_timeout() {
    let wanted = wanted();
    let waiting =
        Trouble { reason: "ImagePullBackOff".into(), message: "container plugin is waiting".into() };
    let pods = [SeenPod { phase: "Pending".into(), waiting: Some(waiting), ..running() }];
    for (now, expected) in [(at(180), ""), (at(181), "ImagePullBackOff")] {
        let decision = decide(&Situation { now, ..input(&wanted, &pods) });
        assert_eq!((&decision.act, reason(&decision)), (&Act::Nothing, expected));
        assert!(decision.progressing.is_some() && decision.again == Some(LOOK_AGAIN));
    }
    let silent = decide(&Situation { now: at(181), ..input(&wanted, &[running()]) });
    assert_eq!(reason(&silent), "PreflightTimeout");
}

#[test]
fn terminating_pods_are_awaited() {
    let pods = [SeenPod { is_leaving: true, hash: None, ..running() }];
    let decision = decide(&input(&wanted(), &pods));
    assert_eq!((&decision.act, decision.again), (&Act::Nothing, Some(LOOK_AGAIN)));
}

#[test]
fn all_pods_must_succeed_and_one_failure_suffices() {
    let wanted = wanted();
    let act = |pods: &[SeenPod]| {
        let decision = decide(&input(&wanted, pods));
        (decision.act, decision.prove.map(|proved| proved.succeeded))
    };
    assert_eq!(act(&[reported(true), running()]), (Act::Nothing, None));
    assert_eq!(act(&[reported(true), reported(true)]), (Act::CleanUp, Some(true)));
    assert_eq!(act(&[reported(true), reported(false), running()]), (Act::Nothing, Some(false)));
}

#[test]
fn missing_pod_restarts_check_unless_it_failed() {
    let wanted = wanted();
    let one_of_two = |pod: SeenPod| [SeenPod { of: 2, attempt: 3, ..pod }];
    for pod in [running(), reported(true)] {
        let decision = decide(&input(&wanted, &one_of_two(pod)));
        assert_eq!((decision.act, decision.prove), (Act::Deploy { attempt: 3 }, None));
    }
    let failed = decide(&input(&wanted, &one_of_two(reported(false))));
    assert_eq!((&failed.act, reason(&failed)), (&Act::Nothing, "PreflightCheckFailed"));
}

#[test]
fn every_failed_node_is_named() {
    let wanted = wanted();
    let on = |node: &str, pod: SeenPod| SeenPod { of: 3, node: Some(node.into()), ..pod };
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
    let content = candidate(&kms, None, |_| Some(values.clone())).unwrap();
    let config = Place {
        namespace: "n".into(),
        image: "i".into(),
        command: vec!["c".into()],
        host_network: true,
        node_label: None,
        call_timeout: "5s".into(),
    };
    let workload =
        Workload { content: &content, hash: "cuZm_g==", fingerprint: "f", attempt: 2, retry: None };
    let long = "n".repeat(253);
    let nodes = ["a.b".to_owned(), long.clone()];
    let rendered = pods(&config, &workload, &nodes).unwrap();
    let names: Vec<String> = rendered.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
    assert_eq!(names[0], "kms-preflight-a.b");
    assert_eq!(names[1].len(), "kms-preflight-".len() + 64);
    let observed: Vec<SeenPod> = rendered.iter().map(SeenPod::of).collect();
    assert_eq!(
        (observed[0].node.as_deref(), observed[1].node.as_deref()),
        (Some("a.b"), Some(long.as_str()))
    );
    assert!(observed.iter().all(|pod| pod.of == 2 && pod.attempt == 2));
    let rules = role("n", &nodes).unwrap().rules.unwrap();
    assert_eq!(rules[0].resource_names.as_ref(), Some(&names));
    let alone = pods(&config, &workload, &[]).unwrap();
    assert_eq!(alone[0].metadata.name.as_deref(), Some("kms-preflight"));
    assert_eq!(SeenPod::of(&alone[0]).node, None);
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
    let observed = SeenPod::of(&pod.unwrap());
    assert_eq!(observed.waiting.unwrap().reason, "ImagePullBackOff");
    assert_eq!((observed.attempt, observed.phase.as_str()), (3, "Pending"));
    assert!(observed.begun.is_some());
}
