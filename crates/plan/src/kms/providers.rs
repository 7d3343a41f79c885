//! The providers of an encryption configuration that are plugins of a KMS. A plugin serves one provider for each resource, so
//! several providers are one plugin.

use std::collections::BTreeMap;

use api::kms::KeyRole;
use api::names::kms::pod::SOCKET_FOLDER;
use serde::Deserialize;

use super::secret_layout::read_number;

/// What is wrong with an encryption configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is no such document.
    #[error("key \"encryption-config\" of the secret is no EncryptionConfiguration in JSON: {0}")]
    Json(String),
    /// The name of a provider does not tell the number of its key.
    #[error(
        "key \"encryption-config\" of the secret: provider {name:?} must be named NUMBER_RESOURCE, with the number of its key"
    )]
    Name {
        /// The provider.
        name: String,
    },
    /// A version that plugins do not speak.
    #[error(
        "key \"encryption-config\" of the secret: provider {name:?} has apiVersion {version:?}: only v2 is served"
    )]
    Version {
        /// The provider.
        name: String,
        /// Its version.
        version: String,
    },
    /// The plugin would listen where nobody looks.
    #[error(
        "key \"encryption-config\" of the secret: provider {name:?} has endpoint {endpoint:?}: it must be {expected}"
    )]
    Endpoint {
        /// The provider.
        name: String,
        /// Where its plugin would listen.
        endpoint: String,
        /// Where it must.
        expected: String,
    },
    /// One plugin cannot be two.
    #[error(
        "key \"encryption-config\" of the secret: providers {one:?} and {other:?} have the same key and differ in more than their names"
    )]
    Differ {
        /// A provider.
        one: String,
        /// The other one.
        other: String,
    },
}

/// A plugin that an encryption configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Number of its key.
    pub key_id: u64,
    /// Where it listens.
    pub endpoint: String,
    /// Whether it encrypts what is written, or only decrypts what was.
    pub role: KeyRole,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    providers: Vec<Entry>,
}

/// An entry; those that are not of a KMS do not concern us.
#[derive(Deserialize)]
struct Entry {
    kms: Option<Kms>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kms {
    #[serde(default)]
    name: String,
    /// Everything but the name, to be compared as it is.
    #[serde(flatten)]
    settings: BTreeMap<String, serde_json::Value>,
}

impl Kms {
    fn setting(&self, name: &str) -> String {
        self.settings.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    }
}

/// Where the plugin of a key listens.
#[must_use]
pub fn endpoint(key_id: u64) -> String {
    format!("unix://{SOCKET_FOLDER}/kms-{key_id}.sock")
}

/// The plugins of an encryption configuration, each once, the newest key first.
pub fn read(config: &[u8]) -> Result<Vec<Provider>, Malformed> {
    let document: Document =
        serde_json::from_slice(config).map_err(|error| Malformed::Json(error.to_string()))?;
    if document.kind.as_deref().is_some_and(|kind| kind != "EncryptionConfiguration") {
        return Err(Malformed::Json(format!("its kind is {:?}", document.kind.unwrap_or_default())));
    }
    let mut found: BTreeMap<u64, (Kms, Provider)> = BTreeMap::new();
    for resource in document.resources {
        for (place, entry) in resource.providers.into_iter().enumerate() {
            let Some(kms) = entry.kms else { continue };
            // What is written is encrypted by the first provider of its resource.
            let role = if place == 0 { KeyRole::Write } else { KeyRole::Read };
            let provider = checked(&kms, role)?;
            match found.get_mut(&provider.key_id) {
                None => {
                    found.insert(provider.key_id, (kms, provider));
                }
                Some((first, _)) if first.settings != kms.settings => {
                    return Err(Malformed::Differ { one: first.name.clone(), other: kms.name });
                }
                Some((_, known)) if role == KeyRole::Write => known.role = KeyRole::Write,
                Some(_) => {}
            }
        }
    }
    Ok(found.into_values().rev().map(|(_, provider)| provider).collect())
}

fn checked(kms: &Kms, role: KeyRole) -> Result<Provider, Malformed> {
    let name = kms.name.clone();
    // Designs write `kms-1_secrets`, programs write `1_secrets`.
    let number = name.split_once('_').map(|(id, _)| id.strip_prefix("kms-").unwrap_or(id));
    let Some(key_id) = number.and_then(read_number) else { return Err(Malformed::Name { name }) };
    let version = kms.setting("apiVersion");
    if version != "v2" {
        return Err(Malformed::Version { name, version });
    }
    let (is, expected) = (kms.setting("endpoint"), endpoint(key_id));
    if is != expected {
        return Err(Malformed::Endpoint { name, endpoint: is, expected });
    }
    Ok(Provider { key_id, endpoint: is, role })
}

#[cfg(test)]
mod tests;
