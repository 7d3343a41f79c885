//! T-F1, T-F3 and T-F6 without a cluster: every row of the table.

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

fn situation<'a>(wanted: &'a Wanted, pods: &'a [SeenPod]) -> Situation<'a> {
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
    decision.degraded.as_ref().map_or("", |trouble| &trouble.reason)
}

#[test]
fn what_is_not_required_or_proved_already_is_cleaned_up() {
    let (wanted, good) = (wanted(), stored(true));
    for pods in [&[][..], &[running()], &[reported(false)]] {
        let act = if pods.is_empty() { Act::Nothing } else { Act::CleanUp };
        let not_required = Situation { wanted: None, ..situation(&wanted, pods) };
        assert_eq!(decide(&not_required), Decision::act(act.clone()));
        let proved = Situation { stored: Some(&good), ..situation(&wanted, pods) };
        assert_eq!(decide(&proved), Decision::act(act));
    }
}

#[test]
fn without_a_pod_and_a_result_a_check_begins() {
    let wanted = wanted();
    let other = Stored { succeeded: true, hash: "other___".into() };
    for stored in [None, Some(&other)] {
        let decision = decide(&Situation { stored, ..situation(&wanted, &[]) });
        assert_eq!((decision.act, decision.degraded), (Act::Deploy { attempt: 1 }, None));
        assert!(decision.progressing.is_some());
    }
}

#[test]
fn a_pod_of_another_configuration_is_removed_whatever_became_of_it() {
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
            let decision = decide(&situation(&wanted, std::slice::from_ref(&pod)));
            assert_eq!((&decision.act, &decision.prove, &decision.degraded), (&Act::CleanUp, &None, &None));
            assert!(decision.progressing.is_some() && decision.again.is_some());
            pod = before;
        }
    }
}

#[test]
fn a_good_result_is_stored_and_the_pod_goes() {
    let decision = decide(&situation(&wanted(), &[reported(true)]));
    assert_eq!(decision.act, Act::CleanUp);
    assert_eq!(decision.prove, Some(Proved { succeeded: true, remote_key_id: Some("kek".into()) }));
    assert_eq!((decision.degraded, decision.progressing), (None, None));
}

/// The hazard: a failed check ends its pod in error, and what it posted must still be read.
#[test]
fn a_bad_result_is_stored_once_and_the_pod_stays() {
    let (wanted, bad) = (wanted(), stored(false));
    let pods = [reported(false)];
    let first = decide(&situation(&wanted, &pods));
    assert_eq!(first.prove, Some(Proved { succeeded: false, remote_key_id: Some("kek".into()) }));
    assert_eq!((&first.act, reason(&first)), (&Act::Nothing, "PreflightCheckFailed"));
    assert_eq!(first.progressing, None);
    let second = decide(&Situation { stored: Some(&bad), ..situation(&wanted, &pods) });
    assert_eq!((&second.act, second.prove), (&Act::Nothing, None));
    assert_eq!(second.degraded, first.degraded);
}

/// T-F6.
#[test]
fn a_failed_check_is_tried_again_less_and_less_often() {
    let (wanted, bad) = (wanted(), stored(false));
    for (attempt, pause) in [(1, 60), (2, 300), (3, 900), (4, 900), (99, 900)] {
        let pods = [SeenPod { attempt, ..reported(false) }];
        let when = |seconds: i64| {
            decide(&Situation { stored: Some(&bad), now: at(10 + seconds), ..situation(&wanted, &pods) })
        };
        let before = when(pause - 1);
        assert_eq!((&before.act, before.again), (&Act::Nothing, Some(Duration::from_secs(1))), "{attempt}");
        let after = when(pause);
        assert_eq!(after.act, Act::Deploy { attempt: attempt + 1 });
        assert_eq!(reason(&after), "PreflightCheckFailed");
    }
}

#[test]
fn somebody_may_ask_for_another_try_at_once() {
    let (wanted, bad) = (wanted(), stored(false));
    let pods = [SeenPod { retry: Some("a".into()), ..reported(false) }];
    let ask = |retry| decide(&Situation { stored: Some(&bad), retry, ..situation(&wanted, &pods) }).act;
    assert_eq!(ask(Some("a")), Act::Nothing);
    assert_eq!(ask(Some("")), Act::Nothing);
    assert_eq!(ask(None), Act::Nothing);
    assert_eq!(ask(Some("b")), Act::Deploy { attempt: 2 });
    let without = |retry, honoured| {
        decide(&Situation { stored: Some(&bad), retry, honoured, ..situation(&wanted, &[]) }).act
    };
    assert_eq!(without(None, None), Act::Nothing);
    assert_eq!(without(Some("a"), Some("a")), Act::Nothing);
    assert_eq!(without(Some("a"), None), Act::Deploy { attempt: 1 });
}

#[test]
fn a_try_that_has_begun_goes_on_when_the_pod_before_it_is_gone() {
    let (wanted, bad) = (wanted(), stored(false));
    let decision = decide(&Situation { stored: Some(&bad), begun: Some(4), ..situation(&wanted, &[]) });
    assert_eq!(decision.act, Act::Deploy { attempt: 4 });
}

#[test]
fn a_failure_whose_pod_is_gone_is_tried_again_at_last() {
    let (wanted, bad) = (wanted(), stored(false));
    let when = |now| {
        decide(&Situation { stored: Some(&bad), failed_since: Some(at(0)), now, ..situation(&wanted, &[]) })
    };
    let early = when(at(899));
    assert_eq!((&early.act, reason(&early)), (&Act::Nothing, "PreflightCheckFailed"));
    assert_eq!(when(at(900)).act, Act::Deploy { attempt: 1 });
}

#[test]
fn a_pod_that_ends_without_a_result_says_why_and_is_tried_again() {
    let wanted = wanted();
    let ended = Trouble { reason: "OOMKilled".into(), message: "container x ended with 137".into() };
    for (phase, ended, expected) in [
        ("Failed", Some(ended), "OOMKilled"),
        ("Failed", None, "Unknown"),
        ("Succeeded", None, "PodCompletedWithoutResult"),
    ] {
        let pods = [SeenPod { phase: phase.into(), ended, finished: Some(at(0)), ..running() }];
        let decision = decide(&situation(&wanted, &pods));
        assert_eq!((&decision.act, reason(&decision)), (&Act::Nothing, expected));
        assert_eq!(decision.prove, None, "nothing was proved");
        let later = decide(&Situation { now: at(60), ..situation(&wanted, &pods) });
        assert_eq!(later.act, Act::Deploy { attempt: 2 });
    }
}

#[test]
fn a_pod_that_does_not_start_is_told_after_its_time_and_waited_for() {
    let wanted = wanted();
    let waiting = Trouble { reason: "ImagePullBackOff".into(), message: "container plugin waits".into() };
    let pods = [SeenPod { phase: "Pending".into(), waiting: Some(waiting), ..running() }];
    for (now, expected) in [(at(180), ""), (at(181), "ImagePullBackOff")] {
        let decision = decide(&Situation { now, ..situation(&wanted, &pods) });
        assert_eq!((&decision.act, reason(&decision)), (&Act::Nothing, expected));
        assert!(decision.progressing.is_some() && decision.again == Some(LOOK_AGAIN));
    }
    let silent = decide(&Situation { now: at(181), ..situation(&wanted, &[running()]) });
    assert_eq!(reason(&silent), "PreflightTimeout");
}

#[test]
fn what_is_being_deleted_is_waited_for() {
    let pods = [SeenPod { is_leaving: true, hash: None, ..running() }];
    let decision = decide(&situation(&wanted(), &pods));
    assert_eq!((&decision.act, decision.again), (&Act::Nothing, Some(LOOK_AGAIN)));
}

#[test]
fn every_pod_must_have_succeeded_and_one_that_failed_is_enough() {
    let wanted = wanted();
    let act = |pods: &[SeenPod]| {
        let decision = decide(&situation(&wanted, pods));
        (decision.act, decision.prove.map(|proved| proved.succeeded))
    };
    assert_eq!(act(&[reported(true), running()]), (Act::Nothing, None));
    assert_eq!(act(&[reported(true), reported(true)]), (Act::CleanUp, Some(true)));
    assert_eq!(act(&[reported(true), reported(false), running()]), (Act::Nothing, Some(false)));
}

#[test]
fn a_pod_that_is_missing_lets_the_check_begin_anew_unless_it_has_failed() {
    let wanted = wanted();
    let one_of_two = |pod: SeenPod| [SeenPod { of: 2, attempt: 3, ..pod }];
    for pod in [running(), reported(true)] {
        let decision = decide(&situation(&wanted, &one_of_two(pod)));
        assert_eq!((decision.act, decision.prove), (Act::Deploy { attempt: 3 }, None));
    }
    let failed = decide(&situation(&wanted, &one_of_two(reported(false))));
    assert_eq!((&failed.act, reason(&failed)), (&Act::Nothing, "PreflightCheckFailed"));
}

#[test]
fn every_node_that_failed_is_named() {
    let wanted = wanted();
    let on = |node: &str, pod: SeenPod| SeenPod { of: 3, node: Some(node.into()), ..pod };
    let pods = [on("a", reported(false)), on("b", reported(true)), on("c", reported(false))];
    let message = decide(&situation(&wanted, &pods)).degraded.unwrap().message;
    assert_eq!(message, "node a: why; node c: why (try 1; the next one after 60s)");
}

#[test]
fn each_node_has_a_pod_and_its_name_is_found_again() {
    let vault = serde_json::json!({
        "kmsPluginImage": "registry.example.com/plugin@sha256:0", "vaultAddress": "https://vault.example.com",
        "vaultKeyPath": "transit/keys/my-key",
        "authentication": { "type": "AppRole", "appRole": { "secret": { "name": "s" } } },
    });
    let values: std::collections::BTreeMap<String, Vec<u8>> =
        ["role-id", "secret-id"].map(|key| (key.to_owned(), b"x".to_vec())).into();
    let kms = serde_json::json!({ "type": "Vault", "vault": vault });
    let content = candidate(&kms, None, |_| Some(values.clone())).unwrap();
    let place = Place {
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
    let made = pods(&place, &workload, &nodes).unwrap();
    let names: Vec<String> = made.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
    assert_eq!(names[0], "kms-preflight-a.b");
    assert_eq!(names[1].len(), "kms-preflight-".len() + 64);
    let seen: Vec<SeenPod> = made.iter().map(SeenPod::of).collect();
    assert_eq!((seen[0].node.as_deref(), seen[1].node.as_deref()), (Some("a.b"), Some(long.as_str())));
    assert!(seen.iter().all(|pod| pod.of == 2 && pod.attempt == 2));
    let rules = role("n", &nodes).unwrap().rules.unwrap();
    assert_eq!(rules[0].resource_names.as_ref(), Some(&names));
    let alone = pods(&place, &workload, &[]).unwrap();
    assert_eq!(alone[0].metadata.name.as_deref(), Some("kms-preflight"));
    assert_eq!(SeenPod::of(&alone[0]).node, None);
}

/// The hazard: the main container only says that it waits for the plugins.
#[test]
fn init_containers_are_looked_at_first() {
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
    let seen = SeenPod::of(&pod.unwrap());
    assert_eq!(seen.waiting.unwrap().reason, "ImagePullBackOff");
    assert_eq!((seen.attempt, seen.phase.as_str()), (3, "Pending"));
    assert!(seen.begun.is_some());
}
