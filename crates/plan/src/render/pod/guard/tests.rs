use api::sei_node::{KeyringSecret, PassphraseSecretRef};
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

/// Returns a pod with one container that has some fields, and a volume.
fn pod_of(name: &str, list: &str, fields: &Value, volume: &Value) -> PodSpec {
    let mut container = json!({ "name": name });
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let mut pod = json!({ "containers": [], "initContainers": [], "volumes": [volume] });
    pod[list].as_array_mut().unwrap().push(container);
    pod["automountServiceAccountToken"] = json!(false);
    serde_json::from_value(pod).unwrap()
}

#[test]
fn secrets_are_accessible_to_the_container_that_needs_them_only() {
    let all = ["seid-init", "sei-sidecar", "kube-rbac-proxy", "seid", "cosmos-exporter"];
    for (secret, only) in [
        ("signs", Some("seid")),
        ("identifies", Some("seid")),
        ("certificate", Some("kube-rbac-proxy")),
        ("store", Some("sei-sidecar")),
        ("ring", None),
        ("phrase", None),
        ("other", Some("anyone")),
    ] {
        for (container, list) in
            all.iter().flat_map(|name| [(*name, "initContainers"), (*name, "containers")])
        {
            for (field, fields, volume) in accesses(secret) {
                let pod = pod_of(container, list, &fields, &volume);
                let result = check(&pod, &keys(), Some("certificate"), Some("store"));
                let who = only.map_or("no container".to_owned(), |only| format!("only {only}"));
                let error = format!(
                    "container {container} would have access to Secret {secret} through {field}: {who} may"
                );
                let is_allowed = only == Some(container) || secret == "other";
                assert_eq!(result, if is_allowed { Ok(()) } else { Err(RenderError(error)) });
            }
        }
    }
}

#[test]
fn directories_and_tokens_are_mounted_only_where_needed() {
    let token = json!({ "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } });
    for (volume, source, allowed) in [
        ("sidecar-socket", json!({ "emptyDir": {} }), &["sei-sidecar", "kube-rbac-proxy"][..]),
        ("sidecar-tmp", json!({ "emptyDir": {} }), &["sei-sidecar"]),
        ("seid-control", json!({ "emptyDir": {} }), &["sei-sidecar", "seid"]),
        ("proxy-token", token.clone(), &["kube-rbac-proxy"]),
        ("another-token", token, &["kube-rbac-proxy"]),
    ] {
        for container in ["seid-init", "sei-sidecar", "kube-rbac-proxy", "seid", "cosmos-exporter"] {
            let mounts = json!({ "volumeMounts": [{ "name": volume, "mountPath": "/a" }] });
            let mut named = source.clone();
            named["name"] = json!(volume);
            let pod = pod_of(container, "containers", &mounts, &named);
            let result = check(&pod, &ObservedKeys::default(), None, None);
            let error = format!(
                "container {container} would mount volume {volume}: only {} may",
                allowed.join(" and ")
            );
            let expected = if allowed.contains(&container) { Ok(()) } else { Err(RenderError(error)) };
            assert_eq!(result, expected);
        }
    }
}

#[test]
fn automounted_token_is_rejected() {
    for automount in [None, Some(true)] {
        let pod = PodSpec { automount_service_account_token: automount, ..PodSpec::default() };
        assert!(check(&pod, &ObservedKeys::default(), None, None).is_err());
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
