use super::super::plugin::Files;
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
    let secret = |key| Reference::new("vault-approle", key).unwrap();
    PluginData {
        secrets: [(secret("role-id"), b"role-123\n".to_vec()), (secret("secret-id"), b"s".to_vec())].into(),
        config_maps: [(Reference::new("ca", "ca-bundle.crt").unwrap(), b"pem".to_vec())].into(),
        ..PluginData::default()
    }
}

fn program(config: &Value, data: &PluginData, files: &Files) -> Result<Program, Refusal> {
    let endpoint = "unix:///var/run/kmsplugin/kms-5.sock";
    Vault.program(&Plugin { key_id: 5, endpoint, config, data, files })
}

#[test]
fn arguments_are_exactly_those_that_the_plugin_knows_in_their_order() {
    let files = Files::Secret("encryption-config-7".into());
    let least = program(&config(), &data(), &files).unwrap();
    assert_eq!(
        least.args,
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
    let on_disk = Files::Resources("encryption-config".into());
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

/// T-L3.
#[test]
fn what_is_missing_is_named_by_its_key_in_the_secret() {
    let files = Files::Secret("s".into());
    let without = |field: &str| {
        let mut config = config();
        config[field] = Value::Null;
        config.as_object_mut().unwrap().remove(field);
        program(&config, &data(), &files).unwrap_err().to_string()
    };
    for field in ["kmsPluginImage", "vaultAddress", "vaultKeyPath", "authentication"] {
        let said = without(field);
        assert!(
            said.starts_with("key \"kms-plugin-config-5\" of the secret: spec.encryption.kms.vault."),
            "{said}"
        );
        assert!(said.contains(field), "{said}");
    }
    for key in ["role-id", "secret-id"] {
        let mut data = data();
        data.secrets.remove(&Reference::new("vault-approle", key).unwrap());
        let said = program(&config(), &data, &files).unwrap_err().to_string();
        assert!(
            said.starts_with(&format!(
                "key \"kms-plugin-secret-vault-approle_{key}-5\" of the secret is missing"
            )),
            "{said}"
        );
    }
    let mut blank = data();
    blank.secrets.insert(Reference::new("vault-approle", "role-id").unwrap(), b" \n".to_vec());
    let said = program(&config(), &blank, &files).unwrap_err().to_string();
    assert!(said.contains("must be the id of a role"), "{said}");
    let mut other = config();
    other["tls"] = json!({ "caBundle": { "name": "other" } });
    let said = program(&other, &data(), &files).unwrap_err().to_string();
    assert!(said.contains("kms-plugin-configmap-other_ca-bundle.crt-5"), "{said}");
    let said = program(&json!({ "vaultAddress": 7 }), &data(), &files).unwrap_err().to_string();
    assert!(said.contains("spec.encryption.kms.vault cannot be read"), "{said}");
}
