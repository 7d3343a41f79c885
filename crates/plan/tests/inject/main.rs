//! Plugins in pods: golden files for both forms and every number of keys, and what always holds of them (T-L1).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic as tests may"
)]

mod pods;
mod refusals;

use plan::kms::inject::{Beside, inject};
use serde_json::{Value, json};

use crate::pods::{Form, content, options, pod};

/// Numbers of keys in the order in which they came: they are not those of their places.
const KEYS: [u64; 3] = [9, 10, 12];

fn injected(form: Form, keys: &[u64]) -> Value {
    inject(&pod(form), &content(keys), &options(form)).unwrap()
}

#[test]
fn pods_are_as_they_were() {
    for form in Form::ALL {
        for count in 0..=KEYS.len() {
            let path = format!("crates/plan/tests/inject/golden/{}-{count}.yaml", form.name());
            let text = serde_saphyr::to_string(&injected(form, &KEYS[..count])).unwrap();
            testbed::harness::generated::check(&path, &text).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn done_again_it_changes_nothing() {
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
fn whatever_was_there_before_the_result_is_the_same() {
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
fn everything_that_is_added_is_taken_out_again() {
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
fn the_reporter_is_who_may_open_the_sockets() {
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
fn what_others_put_there_stays_and_comes_first() {
    let mut before = pod(Form::Deployment);
    before["fieldOfTomorrow"] = json!({ "a": [1] });
    before["initContainers"] = json!([{ "name": "setup", "image": "x", "fieldOfTomorrow": 1 }]);
    before["containers"][0]["fieldOfTomorrow"] = json!(true);
    let after = inject(&before, &content(&[1, 2]), &options(Form::Deployment)).unwrap();
    let names: Vec<&str> =
        after["initContainers"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["setup", "vault-kms-plugin-2", "vault-kms-plugin-1", "kms-health-reporter"]);
    assert_eq!(after["initContainers"][0], before["initContainers"][0]);
    assert_eq!(after["fieldOfTomorrow"], before["fieldOfTomorrow"]);
    assert_eq!(after["containers"][0]["fieldOfTomorrow"], json!(true));
    assert_eq!(after["containers"][1], before["containers"][1]);
}

#[test]
fn a_checker_learns_of_the_sockets_itself_and_has_no_reporter() {
    let mut options = options(Form::Deployment);
    options.beside = Beside::Checker;
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
