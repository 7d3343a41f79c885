use super::*;
use serde_json::{Value, json};

fn kms(name: &str, id: u64) -> Value {
    json!({ "kms": { "apiVersion": "v2", "name": name, "endpoint": endpoint(id), "timeout": "10s" } })
}

fn config(resources: &[&[Value]]) -> Vec<u8> {
    let resources: Vec<Value> = resources
        .iter()
        .map(|providers| json!({ "resources": ["secrets"], "providers": providers }))
        .collect();
    let document = json!({ "kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1", "resources": resources });
    document.to_string().into_bytes()
}

fn ids(config: &[u8]) -> Vec<(u64, KeyRole)> {
    parse(config).unwrap().into_iter().map(|provider| (provider.key_id, provider.role)).collect()
}

#[test]
fn providers_of_one_key_are_one_plugin() {
    let identity = json!({ "identity": {} });
    let aes = json!({ "aesgcm": { "keys": [] } });
    let both = config(&[
        &[kms("10_secrets", 10), kms("9_secrets", 9), identity.clone()],
        &[kms("10_configmaps", 10), aes, kms("9_configmaps", 9), identity.clone()],
    ]);
    assert_eq!(ids(&both), [(10, KeyRole::Write), (9, KeyRole::Read)]);
    assert_eq!(ids(&config(&[&[identity, kms("kms-3_secrets", 3)]])), [(3, KeyRole::Read)]);
    assert_eq!(ids(&config(&[&[]])), []);
    assert_eq!(ids(b"{}"), []);
}

#[test]
fn first_provider_of_any_resource_has_write_role() {
    let moving = config(&[&[kms("1_a", 1), kms("2_a", 2)], &[kms("2_b", 2), kms("1_b", 1)]]);
    assert_eq!(ids(&moving), [(2, KeyRole::Write), (1, KeyRole::Write)]);
}

#[test]
fn invalid_provider_error_names_the_provider() {
    let changed = |name: &str, value: Value| {
        let mut provider = kms("1_secrets", 1);
        provider["kms"][name] = value;
        config(&[&[provider]])
    };
    let mut slow = kms("1_b", 1);
    slow["kms"]["timeout"] = json!("3s");
    for (document, expected) in [
        (b"apiVersion: v1".to_vec(), "not an EncryptionConfiguration in JSON"),
        (b"{\"kind\":\"Secret\"}".to_vec(), "kind is \"Secret\""),
        (changed("name", json!("secrets")), "provider \"secrets\" must be named KEYNUMBER_RESOURCE"),
        (changed("name", json!("01_secrets")), "provider \"01_secrets\" must be named"),
        (changed("name", json!("-1_secrets")), "must be named"),
        (changed("apiVersion", json!("v1")), "has apiVersion \"v1\": only v2 is supported"),
        (changed("endpoint", json!("unix:///tmp/kms.sock")), "expected unix:///var/run/kmsplugin/kms-1.sock"),
        (changed("name", json!("2_secrets")), "expected unix:///var/run/kmsplugin/kms-2.sock"),
        (
            config(&[&[kms("1_a", 1), slow]]),
            "providers \"1_a\" and \"1_b\" of the same key have different settings",
        ),
    ] {
        let error = parse(&document).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.starts_with("key \"encryption-config\" of the secret"), "{error}");
    }
}
