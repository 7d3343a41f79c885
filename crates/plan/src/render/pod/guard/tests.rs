use api::sei_node::PassphraseSecretRef;
use serde_json::{Value, json};

use super::*;

fn keyring() -> KeyringSecret {
    KeyringSecret {
        secret_name: "ring".into(),
        passphrase_secret_ref: PassphraseSecretRef { secret_name: "phrase".into(), key: "word".into() },
        ..KeyringSecret::default()
    }
}

fn keys() -> ObservedKeys {
    ObservedKeys {
        signing_key: Some("signs".into()),
        node_key: Some("identifies".into()),
        operator_keyring: Some(keyring()),
    }
}

/// A pod in which one container has a part, beside a sidecar that has everything.
fn pod(list: &str, part: &Value, volume: &Value) -> PodSpec {
    let mut one = json!({ "name": "one" });
    if let (Some(one), Some(part)) = (one.as_object_mut(), part.as_object()) {
        one.extend(part.clone());
    }
    let sidecar = json!({
        "name": "sei-sidecar",
        "volumeMounts": [{ "name": "secret", "mountPath": "/a" }],
        "env": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "phrase", "key": "word" } } }],
        "envFrom": [{ "secretRef": { "name": "ring" } }],
    });
    let mut pod =
        json!({ "containers": [{ "name": "seid" }], "initContainers": [sidecar], "volumes": [volume] });
    pod[list].as_array_mut().unwrap().push(one);
    serde_json::from_value(pod).unwrap()
}

/// Ways for a container to get at a Secret: the way's name, the container's part, the pod's volume.
fn ways(secret: &str) -> Vec<(&'static str, Value, Value)> {
    let none = json!({ "name": "secret", "emptyDir": {} });
    let mount = json!({ "volumeMounts": [{ "name": "secret", "mountPath": "/b" }] });
    vec![
        ("volumes", mount.clone(), json!({ "name": "secret", "secret": { "secretName": secret } })),
        (
            "volumes",
            mount,
            json!({ "name": "secret", "projected": { "sources": [{ "secret": { "name": secret } }] } }),
        ),
        (
            "env",
            json!({ "env": [{ "name": "B", "valueFrom": { "secretKeyRef": { "name": secret, "key": "k" } } }] }),
            none.clone(),
        ),
        ("envFrom", json!({ "envFrom": [{ "secretRef": { "name": secret } }] }), none),
    ]
}

#[test]
fn the_keyring_and_its_passphrase_reach_the_sidecar_only() {
    for secret in ["ring", "phrase"] {
        for list in ["initContainers", "containers"] {
            for (way, part, volume) in ways(secret) {
                let refused = keyring_stays_with_the_sidecar(&pod(list, &part, &volume), &keyring());
                let said =
                    format!("container one would get at Secret {secret} by its {way}: only the sidecar may");
                assert_eq!(refused, Err(Refusal(said)), "{list}");
            }
        }
    }
    for (_, part, volume) in ways("other") {
        assert_eq!(keyring_stays_with_the_sidecar(&pod("containers", &part, &volume), &keyring()), Ok(()));
    }
}

#[test]
fn a_bootstrap_pod_that_could_sign_is_refused() {
    for secret in ["signs", "ring", "phrase"] {
        for list in ["initContainers", "containers"] {
            for (way, part, volume) in ways(secret) {
                let mut pod = pod(list, &part, &volume);
                // No exception is made for the sidecar, so that it may not have any of it here.
                pod.init_containers
                    .get_or_insert_default()
                    .retain(|container| container.name != container::SIDECAR);
                let said = format!("the bootstrap pod would get at Secret {secret} by its {way}");
                assert_eq!(cannot_sign(&pod, &keys()), Err(Refusal(said)), "{list}");
                assert_eq!(cannot_sign(&pod, &ObservedKeys::default()), Ok(()), "{list}");
            }
        }
    }
}

#[test]
fn a_bootstrap_pod_may_not_have_such_a_volume_even_if_nobody_mounts_it() {
    let volume = json!({ "name": "secret", "secret": { "secretName": "signs" } });
    let pod = serde_json::from_value(json!({ "containers": [], "volumes": [volume] })).unwrap();
    assert!(cannot_sign(&pod, &keys()).is_err());
}

#[test]
fn the_sidecar_of_a_bootstrap_pod_may_not_have_keys_either() {
    let none = json!({ "name": "secret", "emptyDir": {} });
    assert!(cannot_sign(&pod("containers", &json!({}), &none), &keys()).is_err());
}
