//! Kinds of plugins. Everything that differs between them is behind [`Kind`]; Vault is the only one so far.

use std::fmt::Debug;

use api::names::kms::pod::{DATA_FOLDER, RESOURCE_FOLDER};
use serde::Deserialize;
use serde_json::Value;

use super::secret_layout::{Entry, PluginData, Reference};
use super::vault::Vault;

/// Why something is not done: one line that names what is wrong and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl From<super::secret_layout::Malformed> for Refusal {
    fn from(wrong: super::secret_layout::Malformed) -> Self {
        Self(wrong.to_string())
    }
}

impl From<super::providers::Malformed> for Refusal {
    fn from(wrong: super::providers::Malformed) -> Self {
        Self(wrong.to_string())
    }
}

/// Every kind that can be put into a pod.
pub const KINDS: [&dyn Kind; 1] = [&Vault];

/// A kind of plugin.
pub trait Kind: Debug + Sync {
    /// The word for it in `spec.encryption.kms.type`.
    fn name(&self) -> &'static str;

    /// With what the names of its containers begin; the number of the key follows.
    fn container_prefix(&self) -> &'static str;

    /// Values that it needs of other objects.
    fn needs(&self, config: &Value) -> Result<Vec<Need>, Refusal>;

    /// What to run.
    fn program(&self, plugin: &Plugin<'_>) -> Result<Program, Refusal>;

    /// Its configuration as hashes of it are made from: every program that makes one must write the same.
    fn document(&self, config: &Value) -> Result<String, Refusal>;
}

/// Values of an object that a plugin needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Where they are.
    pub source: Source,
    /// The object.
    pub name: String,
    /// The keys in it, sorted.
    pub keys: Vec<&'static str>,
}

/// Kinds of objects that hold values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

impl Source {
    /// The kind of the object.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// A plugin that is to be put into a pod.
#[derive(Clone, Copy, Debug)]
pub struct Plugin<'a> {
    /// Number of its key.
    pub key_id: u64,
    /// Where it is to listen.
    pub endpoint: &'a str,
    /// Its configuration: what stands under its type.
    pub config: &'a Value,
    /// Its files.
    pub data: &'a PluginData,
    /// Where they are in the container.
    pub files: &'a Files,
}

/// What to run in a plugin's container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The image.
    pub image: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// Where the files of an encryption configuration are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// In a volume of their own, from the Secret of this name.
    Secret(String),
    /// In the files of a static pod, in the folder of the Secret of this name.
    Resources(String),
}

impl Files {
    /// The path of a file.
    #[must_use]
    pub fn path(&self, entry: &Entry) -> String {
        match self {
            Self::Secret(_) => format!("{DATA_FOLDER}/{}", entry.key()),
            Self::Resources(secret) => format!("{RESOURCE_FOLDER}/secrets/{secret}/{}", entry.key()),
        }
    }
}

/// The part of an APIServer resource that configures a KMS. The resource is only an envelope.
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

/// The kind that a plugin's configuration asks for, and what it is configured with. `place` names the configuration, for
/// who must correct it.
pub fn configured(config: &[u8], place: &str) -> Result<(&'static dyn Kind, Value), Refusal> {
    let envelope: Envelope = serde_json::from_slice(config).map_err(|error| {
        Refusal(format!("{place} must be an APIServer in JSON with spec.encryption.kms: {error}"))
    })?;
    of_kms(&envelope.spec.encryption.kms, place)
}

/// The same of what stands under `spec.encryption.kms`.
pub fn of_kms(kms: &Value, place: &str) -> Result<(&'static dyn Kind, Value), Refusal> {
    let wanted = kms["type"].as_str().unwrap_or_default();
    let Some(kind) = KINDS.into_iter().find(|kind| kind.name() == wanted) else {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
        return Err(Refusal(format!(
            "{place} has spec.encryption.kms.type {wanted:?}: it must be {}",
            known.join(" or ")
        )));
    };
    Ok((kind, kms[kind.name().to_lowercase()].clone()))
}

/// The entry of the encryption-config secret that a value becomes.
pub fn entry(source: Source, reference: Reference, key_id: u64) -> Entry {
    match source {
        Source::Secret => Entry::Secret(reference, key_id),
        Source::ConfigMap => Entry::ConfigMap(reference, key_id),
    }
}
