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

/// Returns a pod in which one container has some fields, next to a sidecar with access to everything.
fn pod(list: &str, fields: &Value, volume: &Value) -> PodSpec {
    let mut one = json!({ "name": "one" });
    if let (Some(one), Some(fields)) = (one.as_object_mut(), fields.as_object()) {
        one.extend(fields.clone());
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

/// Returns the ways to access a Secret: the field in the error, the fields of the container, the volume of the pod.
fn accesses(secret: &str) -> Vec<(&'static str, Value, Value)> {
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
fn keyring_is_accessible_to_the_sidecar_only() {
    for secret in ["ring", "phrase"] {
        for list in ["initContainers", "containers"] {
            for (field, fields, volume) in accesses(secret) {
                let result = check_keyring_access(&pod(list, &fields, &volume), &keyring());
                let error = format!(
                    "container one would have access to Secret {secret} through {field}: only the sidecar may"
                );
                assert_eq!(result, Err(RenderError(error)), "{list}");
            }
        }
    }
    for (_, fields, volume) in accesses("other") {
        assert_eq!(check_keyring_access(&pod("containers", &fields, &volume), &keyring()), Ok(()));
    }
}

#[test]
fn bootstrap_pod_with_signing_key_is_rejected() {
    for secret in ["signs", "ring", "phrase"] {
        for list in ["initContainers", "containers"] {
            for (field, fields, volume) in accesses(secret) {
                let mut pod = pod(list, &fields, &volume);
                // The sidecar of this fixture has access, and is not exempt in a bootstrap pod.
                pod.init_containers
                    .get_or_insert_default()
                    .retain(|container| container.name != container::SIDECAR);
                let error = format!("the bootstrap pod would have access to Secret {secret} through {field}");
                assert_eq!(check_no_signing_keys(&pod, &keys()), Err(RenderError(error)), "{list}");
                assert_eq!(check_no_signing_keys(&pod, &ObservedKeys::default()), Ok(()), "{list}");
            }
        }
    }
}

#[test]
fn bootstrap_pod_with_unmounted_key_volume_is_rejected() {
    let volume = json!({ "name": "secret", "secret": { "secretName": "signs" } });
    let pod = serde_json::from_value(json!({ "containers": [], "volumes": [volume] })).unwrap();
    assert!(check_no_signing_keys(&pod, &keys()).is_err());
}

#[test]
fn bootstrap_sidecar_with_keys_is_rejected() {
    let none = json!({ "name": "secret", "emptyDir": {} });
    assert!(check_no_signing_keys(&pod("containers", &json!({}), &none), &keys()).is_err());
}
