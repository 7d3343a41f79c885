//! Plugin injection: golden files for static pods and Deployments with 0 to 3 keys, and their invariants.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

mod errors;
mod pods;

use plan::kms::inject::{SocketConsumer, inject};
use serde_json::{Value, json};

use crate::pods::{Form, content, options, pod};

/// Key numbers, deliberately different from their indexes.
const KEYS: [u64; 3] = [9, 10, 12];

fn injected(form: Form, keys: &[u64]) -> Value {
    inject(&pod(form), &content(keys), &options(form)).unwrap()
}

#[test]
fn injected_pods_match_golden_files() {
    for form in Form::ALL {
        for count in 0..=KEYS.len() {
            let path = format!("crates/plan/tests/inject/golden/{}-{count}.yaml", form.name());
            let text = serde_saphyr::to_string(&injected(form, &KEYS[..count])).unwrap();
            testbed::harness::generated::check(&path, &text).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn injection_is_idempotent() {
    for form in Form::ALL {
        for count in 0..=KEYS.len() {
            let once = injected(form, &KEYS[..count]);
            let mut again = once.clone();
            for _ in 0..10 {
                again = inject(&again, &content(&KEYS[..count]), &options(form)).unwrap();
                assert_eq!(again, once, "{} with {count} keys", form.name());
            }
        }
    }
}

#[test]
fn result_is_independent_of_previous_injection() {
    for form in Form::ALL {
        for before in 0..=KEYS.len() {
            for after in 0..=KEYS.len() {
                let changed =
                    inject(&injected(form, &KEYS[..before]), &content(&KEYS[..after]), &options(form));
                assert_eq!(changed.unwrap(), injected(form, &KEYS[..after]), "{before} to {after}");
            }
        }
    }
}

#[test]
fn injected_parts_are_removed_completely() {
    for form in Form::ALL {
        for count in 0..=KEYS.len() {
            let without = inject(&injected(form, &KEYS[..count]), &content(&[]), &options(form));
            assert_eq!(without.unwrap(), pod(form), "{}", form.name());
        }
    }
    let bare = json!({ "containers": [{ "name": "openshift-apiserver" }] });
    let options = options(Form::Deployment);
    let with = inject(&bare, &content(&[1]), &options).unwrap();
    assert_eq!(inject(&with, &content(&[]), &options).unwrap(), bare);
}

#[test]
fn reporter_runs_as_socket_user() {
    let server = "openshift-apiserver";
    for (pod, user) in [
        (json!({ "containers": [{ "name": server }] }), json!(0)),
        (json!({ "containers": [{ "name": server }], "securityContext": { "runAsUser": 7 } }), json!(7)),
        (
            json!({
                "containers": [{ "name": server, "securityContext": { "runAsUser": 8 } }],
                "securityContext": { "runAsUser": 7 },
            }),
            json!(8),
        ),
        (
            json!({ "containers": [{ "name": server }], "securityContext": { "runAsNonRoot": true } }),
            Value::Null,
        ),
    ] {
        let injected = inject(&pod, &content(&[1]), &options(Form::Deployment)).unwrap();
        let reporter = injected["initContainers"].as_array().unwrap().last().unwrap();
        assert_eq!(reporter["name"], "kms-health-reporter");
        assert_eq!(reporter["securityContext"]["runAsUser"], user, "{pod}");
    }
}

#[test]
fn foreign_content_is_kept_and_comes_first() {
    let mut before = pod(Form::Deployment);
    before["unknownField"] = json!({ "a": [1] });
    before["initContainers"] = json!([{ "name": "setup", "image": "x", "unknownField": 1 }]);
    before["containers"][0]["unknownField"] = json!(true);
    let after = inject(&before, &content(&[1, 2]), &options(Form::Deployment)).unwrap();
    let names: Vec<&str> =
        after["initContainers"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["setup", "vault-kms-plugin-2", "vault-kms-plugin-1", "kms-health-reporter"]);
    assert_eq!(after["initContainers"][0], before["initContainers"][0]);
    assert_eq!(after["unknownField"], before["unknownField"]);
    assert_eq!(after["containers"][0]["unknownField"], json!(true));
    assert_eq!(after["containers"][1], before["containers"][1]);
}

#[test]
fn checker_gets_sockets_flag_and_no_reporter() {
    let mut options = options(Form::Deployment);
    options.consumer = SocketConsumer::Checker;
    let mut once = pod(Form::Deployment);
    for keys in [&[1, 2][..], &[3, 2], &[3, 2]] {
        once = inject(&once, &content(keys), &options).unwrap();
    }
    let sockets = "unix:///var/run/kmsplugin/kms-3.sock,unix:///var/run/kmsplugin/kms-2.sock";
    assert_eq!(once["containers"][0]["args"], json!(["--v=2", format!("--kms-sockets={sockets}")]));
    let names: Vec<&Value> =
        once["initContainers"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["vault-kms-plugin-3", "vault-kms-plugin-2"]);
}
