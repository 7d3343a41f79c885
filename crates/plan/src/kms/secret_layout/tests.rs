use super::*;

/// Names and keys that are easily split at the wrong position: with dashes, digits and dots at their ends.
const NAMES: [&str; 7] = ["a", "foo-1", "vault-approle", "x.y-2-3", "0", "kms-plugin-secret-a", "a-0"];
const KEYS: [&str; 9] = ["role-id", "bar-2", "ca-bundle.crt", "a_b-1", "_", "-", "7", "_-1", "x-0-"];
const NUMBERS: [u64; 5] = [0, 1, 42, 555, u64::MAX];

#[test]
fn entries_round_trip_with_dashes_and_digits() {
    let mut seen = BTreeMap::new();
    for (name, key, id) in
        NAMES.iter().flat_map(|name| KEYS.iter().flat_map(move |key| NUMBERS.map(|id| (name, key, id))))
    {
        let reference = ObjectKeyRef::new(name, key).unwrap();
        for entry in [SecretEntry::Secret(reference.clone(), id), SecretEntry::ConfigMap(reference, id)] {
            assert_eq!(SecretEntry::parse(&entry.key()), Ok(Some(entry.clone())), "{}", entry.key());
            assert_eq!(seen.insert(entry.key(), entry.clone()), None, "{} is ambiguous", entry.key());
        }
    }
    for id in NUMBERS {
        let entry = SecretEntry::PluginConfig(id);
        assert_eq!(SecretEntry::parse(&entry.key()), Ok(Some(entry)));
    }
}

#[test]
fn entry_keys_match_upstream_format() {
    let secret = |name: &str, key: &str, id| SecretEntry::Secret(ObjectKeyRef::new(name, key).unwrap(), id);
    let config_map =
        |name: &str, key: &str, id| SecretEntry::ConfigMap(ObjectKeyRef::new(name, key).unwrap(), id);
    for (key, entry) in [
        ("encryption-config", SecretEntry::Config),
        ("kms-plugin-config-555", SecretEntry::PluginConfig(555)),
        ("kms-plugin-secret-vault-approle_secret-id-555", secret("vault-approle", "secret-id", 555)),
        (
            "kms-plugin-configmap-vault-ca-bundle_ca-bundle.crt-555",
            config_map("vault-ca-bundle", "ca-bundle.crt", 555),
        ),
        ("kms-plugin-secret-foo-1_bar-2-3", secret("foo-1", "bar-2", 3)),
    ] {
        assert_eq!(SecretEntry::parse(key), Ok(Some(entry.clone())));
        assert_eq!(entry.key(), key);
    }
}

#[test]
fn malformed_key_error_names_key_and_missing_part() {
    for (key, expected) in [
        ("kms-plugin-config-", "must end in \"-\" and a key number"),
        ("kms-plugin-config-x", "must end in"),
        ("kms-plugin-config-1x", "must end in"),
        ("kms-plugin-config--1", "must end in"),
        ("kms-plugin-config-007", "no leading zero"),
        ("kms-plugin-config-18446744073709551616", "must end in"),
        ("kms-plugin-config- 1", "must end in"),
        ("kms-plugin-secret-a_b", "must end in"),
        ("kms-plugin-secret-a_b-c", "must end in"),
        ("kms-plugin-secret-a_b-", "must end in"),
        ("kms-plugin-secret-ab-1", "\"_\" is missing"),
        ("kms-plugin-secret-_b-1", "the object name is missing"),
        ("kms-plugin-secret-a_-1", "the key in the object is missing"),
        ("kms-plugin-secret-1", "must end in"),
        ("kms-plugin-configmap-a-1", "kms-plugin-configmap-NAME_KEY-NUMBER"),
    ] {
        let error = SecretEntry::parse(key).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(&format!("{key:?}")), "{key}: {error}");
        assert!(!error.contains('\n'));
    }
}

#[test]
fn unrelated_keys_are_ignored() {
    for key in ["", "other", "kms-plugin-", "kms-plugin-configx-1", "encryption-config-1", "tls.crt"] {
        assert_eq!(SecretEntry::parse(key), Ok(None), "{key}");
    }
}

#[test]
fn ambiguous_object_name_is_rejected() {
    for name in ["", "a_b", "_"] {
        assert!(ObjectKeyRef::new(name, "key").is_err(), "{name}");
    }
    assert!(ObjectKeyRef::new("name", "").is_err());
}

#[test]
fn secret_round_trips() {
    let text = |text: &str| ByteString(text.into());
    let data: BTreeMap<String, ByteString> = [
        ("encryption-config", "{}"),
        ("kms-plugin-config-1", "one"),
        ("kms-plugin-config-2", "two"),
        ("kms-plugin-secret-vault-approle_role-id-2", "role"),
        ("kms-plugin-configmap-ca_ca-bundle.crt-2", "pem"),
    ]
    .map(|(key, value)| (key.to_owned(), text(value)))
    .into();
    let content = EncryptionSecret::read(&data).unwrap();
    assert_eq!(content.plugins.keys().collect::<Vec<_>>(), [&1, &2]);
    assert_eq!(content.write(), data);
    let mut more = data.clone();
    more.insert("unrelated".into(), text("x"));
    assert_eq!(EncryptionSecret::read(&more).unwrap(), content);
    more.insert("kms-plugin-config-3".into(), text(""));
    assert_eq!(
        EncryptionSecret::read(&more).unwrap_err().to_string(),
        "key \"kms-plugin-config-3\" of the secret is empty: set or remove it"
    );
}

#[test]
fn empty_secret_has_no_config() {
    assert_eq!(EncryptionSecret::read(&BTreeMap::new()).unwrap(), EncryptionSecret::default());
}
