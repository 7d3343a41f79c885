use super::super::plugin::PluginFiles;
use super::super::secret_layout::PluginData;
use super::*;
use serde_json::json;

fn config() -> Value {
    json!({
        "kmsPluginImage": "registry.example.com/plugin@sha256:1",
        "vaultAddress": "https://vault.example.com:8200",
        "vaultKeyPath": "transit/keys/my-key",
        "authentication": { "type": "AppRole", "appRole": { "secret": { "name": "vault-approle" } } },
    })
}

fn data() -> PluginData {
    let secret = |key| ObjectKeyRef::new("vault-approle", key).unwrap();
    PluginData {
        secrets: [(secret("role-id"), b"role-123\n".to_vec()), (secret("secret-id"), b"s".to_vec())].into(),
        config_maps: [(ObjectKeyRef::new("ca", "ca-bundle.crt").unwrap(), b"pem".to_vec())].into(),
        ..PluginData::default()
    }
}

fn program(
    config: &Value,
    data: &PluginData,
    files: &PluginFiles,
) -> Result<PluginContainer, InvalidKmsConfig> {
    let endpoint = "unix:///var/run/kmsplugin/kms-5.sock";
    Vault.container(&Plugin { key_id: 5, endpoint, config, data, files })
}

#[test]
fn vault_arguments_are_exact() {
    let files = PluginFiles::Secret("encryption-config-7".into());
    let minimal = program(&config(), &data(), &files).unwrap();
    assert_eq!(
        minimal.args,
        [
            "-listen-address=unix:///var/run/kmsplugin/kms-5.sock",
            "-vault-address=https://vault.example.com:8200",
            "-vault-key-path=transit/keys/my-key",
            "-approle-role-id=role-123",
            "-approle-secret-id-path=/var/run/secrets/kms-plugin/kms-plugin-secret-vault-approle_secret-id-5",
            "-metrics-port=0",
        ]
    );
    let mut full = config();
    full["tls"] = json!({ "caBundle": { "name": "ca" }, "serverName": "vault.internal" });
    full["vaultNamespace"] = json!("admin");
    full["vaultAuthNamespace"] = json!("auth");
    let on_disk = PluginFiles::Resources("encryption-config".into());
    let full = program(&full, &data(), &on_disk).unwrap();
    let folder = "/etc/kubernetes/static-pod-resources/secrets/encryption-config";
    assert_eq!(
        full.args[4..],
        [
            format!("-approle-secret-id-path={folder}/kms-plugin-secret-vault-approle_secret-id-5"),
            format!("-tls-ca-file={folder}/kms-plugin-configmap-ca_ca-bundle.crt-5"),
            "-tls-sni=vault.internal".into(),
            "-vault-namespace=admin".into(),
            "-vault-auth-namespace=auth".into(),
            "-metrics-port=0".into(),
        ]
    );
}

#[test]
fn missing_value_error_names_secret_key() {
    let files = PluginFiles::Secret("s".into());
    let without = |field: &str| {
        let mut config = config();
        config[field] = Value::Null;
        config.as_object_mut().unwrap().remove(field);
        program(&config, &data(), &files).unwrap_err().to_string()
    };
    for field in ["kmsPluginImage", "vaultAddress", "vaultKeyPath", "authentication"] {
        let error = without(field);
        assert!(
            error.starts_with("key \"kms-plugin-config-5\" of the secret: spec.encryption.kms.vault."),
            "{error}"
        );
        assert!(error.contains(field), "{error}");
    }
    for key in ["role-id", "secret-id"] {
        let mut data = data();
        data.secrets.remove(&ObjectKeyRef::new("vault-approle", key).unwrap());
        let error = program(&config(), &data, &files).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "key \"kms-plugin-secret-vault-approle_{key}-5\" of the secret is missing"
            )),
            "{error}"
        );
    }
    let mut blank = data();
    blank.secrets.insert(ObjectKeyRef::new("vault-approle", "role-id").unwrap(), b" \n".to_vec());
    let error = program(&config(), &blank, &files).unwrap_err().to_string();
    assert!(error.contains("must contain a role ID"), "{error}");
    let mut other = config();
    other["tls"] = json!({ "caBundle": { "name": "other" } });
    let error = program(&other, &data(), &files).unwrap_err().to_string();
    assert!(error.contains("kms-plugin-configmap-other_ca-bundle.crt-5"), "{error}");
    let error = program(&json!({ "vaultAddress": 7 }), &data(), &files).unwrap_err().to_string();
    assert!(error.contains("invalid spec.encryption.kms.vault"), "{error}");
}
