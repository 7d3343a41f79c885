//! Plugin kinds. Everything that differs between them is behind [`PluginKind`]; Vault is the only one so far.

use std::fmt::Debug;

use api::names::kms::pod::{DATA_FOLDER, RESOURCE_FOLDER};
use serde::Deserialize;
use serde_json::Value;

use super::secret_layout::{ObjectKeyRef, PluginData, SecretEntry};
use super::vault::Vault;

/// Invalid KMS configuration: one line that names the problem and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidKmsConfig(pub String);

impl From<super::secret_layout::InvalidSecret> for InvalidKmsConfig {
    fn from(error: super::secret_layout::InvalidSecret) -> Self {
        Self(error.to_string())
    }
}

impl From<super::providers::InvalidProviders> for InvalidKmsConfig {
    fn from(error: super::providers::InvalidProviders) -> Self {
        Self(error.to_string())
    }
}

/// Supported plugin kinds.
pub const KINDS: [&dyn PluginKind; 1] = [&Vault];

/// Plugin kind.
pub trait PluginKind: Debug + Sync {
    /// Returns the value of `spec.encryption.kms.type`.
    fn name(&self) -> &'static str;

    /// Returns the prefix of container names, which the key number follows.
    fn container_prefix(&self) -> &'static str;

    /// Returns the Secrets and ConfigMaps that the configuration references.
    fn required_objects(&self, config: &Value) -> Result<Vec<RequiredObject>, InvalidKmsConfig>;

    /// Returns image and arguments of the plugin container.
    fn container(&self, plugin: &Plugin<'_>) -> Result<PluginContainer, InvalidKmsConfig>;

    /// Returns the canonical configuration for hashing. All programs that compute the hash must produce the same bytes.
    fn canonical_config(&self, config: &Value) -> Result<String, InvalidKmsConfig>;
}

/// Referenced object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredObject {
    /// Kind of the object.
    pub source: ObjectKind,
    /// Name of the object.
    pub name: String,
    /// Required keys, sorted.
    pub keys: Vec<&'static str>,
}

/// Kind of a referenced object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// Secret.
    Secret,
    /// ConfigMap.
    ConfigMap,
}

impl ObjectKind {
    /// Returns the Kubernetes kind.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// Plugin to inject.
#[derive(Clone, Copy, Debug)]
pub struct Plugin<'a> {
    /// Key number.
    pub key_id: u64,
    /// Listen address.
    pub endpoint: &'a str,
    /// Configuration below its type.
    pub config: &'a Value,
    /// Content of its files.
    pub data: &'a PluginData,
    /// Location of its files in the container.
    pub files: &'a PluginFiles,
}

/// Image and arguments of a plugin container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginContainer {
    /// Image.
    pub image: String,
    /// Arguments.
    pub args: Vec<String>,
}

/// Location of the plugin files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginFiles {
    /// Volume from the Secret with this name.
    Secret(String),
    /// Static pod resource directory, in the directory of the Secret with this name.
    Resources(String),
}

impl PluginFiles {
    /// Returns the path of a file.
    #[must_use]
    pub fn path(&self, entry: &SecretEntry) -> String {
        match self {
            Self::Secret(_) => format!("{DATA_FOLDER}/{}", entry.key()),
            Self::Resources(secret) => format!("{RESOURCE_FOLDER}/secrets/{secret}/{}", entry.key()),
        }
    }
}

/// KMS configuration of an APIServer resource, which is used as an envelope only.
#[derive(Deserialize)]
struct Envelope {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    encryption: Encryption,
}

#[derive(Deserialize)]
struct Encryption {
    kms: Value,
}

/// Returns kind and configuration of a plugin. `location` names the configuration in errors.
pub fn parse_plugin_config(
    config: &[u8],
    location: &str,
) -> Result<(&'static dyn PluginKind, Value), InvalidKmsConfig> {
    let envelope: Envelope = serde_json::from_slice(config).map_err(|error| {
        InvalidKmsConfig(format!("{location} must be an APIServer in JSON with spec.encryption.kms: {error}"))
    })?;
    parse_kms_spec(&envelope.spec.encryption.kms, location)
}

/// Returns kind and configuration of the value of `spec.encryption.kms`.
pub fn parse_kms_spec(
    kms: &Value,
    location: &str,
) -> Result<(&'static dyn PluginKind, Value), InvalidKmsConfig> {
    let requested = kms["type"].as_str().unwrap_or_default();
    let Some(kind) = KINDS.into_iter().find(|kind| kind.name() == requested) else {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
        return Err(InvalidKmsConfig(format!(
            "{location} has unsupported spec.encryption.kms.type {requested:?}: use {}",
            known.join(" or ")
        )));
    };
    Ok((kind, kms[kind.name().to_lowercase()].clone()))
}

/// Returns the entry of the encryption-config Secret for a referenced value.
pub fn secret_entry(source: ObjectKind, reference: ObjectKeyRef, key_id: u64) -> SecretEntry {
    match source {
        ObjectKind::Secret => SecretEntry::Secret(reference, key_id),
        ObjectKind::ConfigMap => SecretEntry::ConfigMap(reference, key_id),
    }
}
