use super::super::plugin::ObjectKind;
use super::super::vault::Vault;
use super::*;
use serde_json::json;

fn config() -> Value {
    json!({
        "vaultAddress": "https://vault.example.com:8200",
        "vaultKeyPath": "transit/keys/my-key",
        "tls": { "caBundle": { "name": "vault-ca-bundle" } },
        "authentication": { "type": "AppRole", "appRole": { "secret": { "name": "vault-approle" } } },
    })
}

fn values(need: &RequiredObject) -> Values {
    let all: &[(&str, &str)] = match (need.source, need.name.as_str()) {
        (ObjectKind::Secret, "vault-approle") => {
            &[("role-id", "role-123"), ("secret-id", "secret-456"), ("more", "x")]
        }
        (ObjectKind::ConfigMap, "vault-ca-bundle") => &[("ca-bundle.crt", "test-ca-cert"), ("more", "x")],
        _ => return None,
    };
    Some(all.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect())
}

fn hash(change: impl Fn(&mut Value)) -> String {
    let mut config = config();
    change(&mut config);
    compute(&Vault, &config, values).unwrap()
}

#[test]
fn config_hash_matches_test_vectors() {
    assert_eq!(hash(|_| {}), "cuZm_g==");
    assert_eq!(
        hash(|config| config["vaultAddress"] = json!("https://other-vault.example.com:8200")),
        "oHX1jw=="
    );
    assert_eq!(hash(|config| config["vaultNamespace"] = json!("my-namespace")), "lmrlhQ==");
    assert_eq!(hash(|config| config["tls"] = json!({})), "CWffWA==");
    let image = format!("registry.example.com/plugin@sha256:{}", "0123456789abcdef".repeat(4));
    assert_eq!(hash(|config| config["kmsPluginImage"] = json!(image)), "DP-Bbg==");
}

#[test]
fn config_hash_covers_required_values_only() {
    let before = hash(|_| {});
    for (source, key) in [
        (ObjectKind::Secret, "role-id"),
        (ObjectKind::Secret, "secret-id"),
        (ObjectKind::ConfigMap, "ca-bundle.crt"),
    ] {
        let changed = |need: &RequiredObject| {
            let mut all = values(need)?;
            if need.source == source {
                all.insert(key.into(), b"other".to_vec());
            }
            Some(all)
        };
        assert_ne!(compute(&Vault, &config(), changed).unwrap(), before, "{key}");
        let missing = |need: &RequiredObject| {
            let mut all = values(need)?;
            if need.source == source {
                all.remove(key);
            }
            Some(all)
        };
        let error = compute(&Vault, &config(), missing).unwrap_err().to_string();
        assert!(error.contains(&format!("has no key {key:?}: add it")), "{error}");
    }
    let error = compute(&Vault, &config(), |_| None).unwrap_err().to_string();
    assert_eq!(error, "Secret vault-approle not found: create it");
}

#[test]
fn html_is_escaped_like_go() {
    assert_eq!(escape_html("a<b>&\u{2028}\u{2029}é"), "a\\u003cb\\u003e\\u0026\\u2028\\u2029é");
    assert_ne!(
        hash(|config| config["vaultNamespace"] = json!("a&b")),
        hash(|config| config["vaultNamespace"] = json!("a\\u0026b"))
    );
}

#[test]
fn fingerprint_depends_on_key_and_part_boundaries() {
    let one = fingerprint(b"key", [&b"ab"[..], b"c"]);
    assert_eq!(one.len(), 64);
    assert_eq!(one, fingerprint(b"key", [&b"ab"[..], b"c"]));
    assert_ne!(one, fingerprint(b"key", [&b"a"[..], b"bc"]));
    assert_ne!(one, fingerprint(b"other", [&b"ab"[..], b"c"]));
    assert_ne!(fingerprint(&[1; 65], [&b"a"[..]]), fingerprint(&[1; 66], [&b"a"[..]]));
}

/// HMAC-SHA-256 of empty input with an empty key.
#[test]
fn fingerprint_matches_hmac_test_vector() {
    assert_eq!(fingerprint(b"", []), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}
