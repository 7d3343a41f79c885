//! HashiCorp Vault plugin.

use api::names::kms::pod::VAULT_PLUGIN_PREFIX;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plugin::{InvalidKmsConfig, ObjectKind, Plugin, PluginContainer, PluginKind, RequiredObject};
use super::secret_layout::{ObjectKeyRef, SecretEntry};

const ROLE_ID: &str = "role-id";
const SECRET_ID: &str = "secret-id";
const CA_BUNDLE: &str = "ca-bundle.crt";

/// Vault.
#[derive(Clone, Copy, Debug)]
pub struct Vault;

/// Configuration. The field order is part of the configuration hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    #[serde(skip_serializing_if = "String::is_empty")]
    kms_plugin_image: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    vault_address: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    vault_namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    vault_auth_namespace: String,
    #[serde(skip_serializing_if = "is_zero")]
    tls: Tls,
    #[serde(skip_serializing_if = "is_zero")]
    authentication: Authentication,
    #[serde(skip_serializing_if = "String::is_empty")]
    vault_key_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Tls {
    #[serde(skip_serializing_if = "is_zero")]
    ca_bundle: Named,
    #[serde(skip_serializing_if = "String::is_empty")]
    server_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Authentication {
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "is_zero")]
    app_role: AppRole,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct AppRole {
    #[serde(skip_serializing_if = "is_zero")]
    secret: Named,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Named {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn parse(config: &Value) -> Result<Config, InvalidKmsConfig> {
    serde_json::from_value(config.clone())
        .map_err(|error| InvalidKmsConfig(format!("invalid spec.encryption.kms.vault: {error}")))
}

impl PluginKind for Vault {
    fn name(&self) -> &'static str {
        "Vault"
    }

    fn container_prefix(&self) -> &'static str {
        VAULT_PLUGIN_PREFIX
    }

    fn required_objects(&self, config: &Value) -> Result<Vec<RequiredObject>, InvalidKmsConfig> {
        let Config { authentication, tls, .. } = parse(config)?;
        let (secret, bundle) = (authentication.app_role.secret.name, tls.ca_bundle.name);
        let mut needs = Vec::new();
        if !secret.is_empty() {
            needs.push(RequiredObject {
                source: ObjectKind::Secret,
                name: secret,
                keys: vec![ROLE_ID, SECRET_ID],
            });
        }
        if !bundle.is_empty() {
            needs.push(RequiredObject { source: ObjectKind::ConfigMap, name: bundle, keys: vec![CA_BUNDLE] });
        }
        Ok(needs)
    }

    fn container(&self, plugin: &Plugin<'_>) -> Result<PluginContainer, InvalidKmsConfig> {
        let secret_key = SecretEntry::PluginConfig(plugin.key_id).key();
        let config = parse(plugin.config).map_err(|InvalidKmsConfig(why)| {
            InvalidKmsConfig(format!("key {secret_key:?} of the secret: {why}"))
        })?;
        let required = |field: &str, value: &str| {
            if value.is_empty() {
                let why = format!(
                    "key {secret_key:?} of the secret: spec.encryption.kms.vault.{field} is required"
                );
                return Err(InvalidKmsConfig(why));
            }
            Ok(value.to_owned())
        };
        let image = required("kmsPluginImage", &config.kms_plugin_image)?;
        let approle =
            required("authentication.appRole.secret.name", &config.authentication.app_role.secret.name)?;
        let mut args = vec![
            format!("-listen-address={}", plugin.endpoint),
            format!("-vault-address={}", required("vaultAddress", &config.vault_address)?),
            format!("-vault-key-path={}", required("vaultKeyPath", &config.vault_key_path)?),
            format!("-approle-role-id={}", role_id(plugin, &approle)?),
            format!(
                "-approle-secret-id-path={}",
                file_path(plugin, ObjectKind::Secret, &approle, SECRET_ID)?
            ),
        ];
        let bundle = &config.tls.ca_bundle.name;
        if !bundle.is_empty() {
            args.push(format!(
                "-tls-ca-file={}",
                file_path(plugin, ObjectKind::ConfigMap, bundle, CA_BUNDLE)?
            ));
        }
        for (flag, value) in [
            ("tls-sni", &config.tls.server_name),
            ("vault-namespace", &config.vault_namespace),
            ("vault-auth-namespace", &config.vault_auth_namespace),
        ] {
            if !value.is_empty() {
                args.push(format!("-{flag}={value}"));
            }
        }
        // Several plugins share one network namespace, so a second one could not bind the port.
        args.push("-metrics-port=0".into());
        Ok(PluginContainer { image, args })
    }

    fn canonical_config(&self, config: &Value) -> Result<String, InvalidKmsConfig> {
        // Serializing strings does not fail.
        serde_json::to_string(&parse(config)?).map_err(|error| InvalidKmsConfig(error.to_string()))
    }
}

/// Returns a referenced value and its entry in the encryption-config Secret.
fn find_value<'a>(
    plugin: &Plugin<'a>,
    source: ObjectKind,
    name: &str,
    key: &str,
) -> Result<(SecretEntry, &'a [u8]), InvalidKmsConfig> {
    let reference = ObjectKeyRef::new(name, key)?;
    let values = match source {
        ObjectKind::Secret => &plugin.data.secrets,
        ObjectKind::ConfigMap => &plugin.data.config_maps,
    };
    let found = values.get(&reference).map(Vec::as_slice);
    let entry = super::plugin::secret_entry(source, reference, plugin.key_id);
    match found {
        Some(value) => Ok((entry, value)),
        None => Err(InvalidKmsConfig(format!(
            "key {:?} of the secret is missing: copy key {key:?} of {} {name} into it",
            entry.key(),
            source.kind(),
        ))),
    }
}

fn file_path(
    plugin: &Plugin<'_>,
    source: ObjectKind,
    name: &str,
    key: &str,
) -> Result<String, InvalidKmsConfig> {
    let (entry, _) = find_value(plugin, source, name, key)?;
    Ok(plugin.files.path(&entry))
}

/// Returns the role ID, which is not secret. The plugin has no flag to read it from a file.
fn role_id(plugin: &Plugin<'_>, approle: &str) -> Result<String, InvalidKmsConfig> {
    let (entry, value) = find_value(plugin, ObjectKind::Secret, approle, ROLE_ID)?;
    let text = str::from_utf8(value).ok().map(|text| text.trim_end_matches(['\r', '\n']));
    match text {
        Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => Err(InvalidKmsConfig(format!("key {:?} of the secret must contain a role ID", entry.key()))),
    }
}

#[cfg(test)]
mod tests;
