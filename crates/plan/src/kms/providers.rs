//! KMS providers of an EncryptionConfiguration. A plugin serves one provider per resource, so several providers map to one plugin.

use std::collections::BTreeMap;

use api::kms::KeyRole;
use api::names::kms::pod::SOCKET_FOLDER;
use serde::Deserialize;

use super::secret_layout::parse_key_number;

/// Error returned for an invalid EncryptionConfiguration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProviders {
    /// Malformed document.
    #[error("key \"encryption-config\" of the secret is not an EncryptionConfiguration in JSON: {0}")]
    Json(String),
    /// The provider name contains no key number.
    #[error("key \"encryption-config\" of the secret: provider {name:?} must be named KEYNUMBER_RESOURCE")]
    Name {
        /// Provider name.
        name: String,
    },
    /// Unsupported version.
    #[error(
        "key \"encryption-config\" of the secret: provider {name:?} has apiVersion {version:?}: only v2 is supported"
    )]
    Version {
        /// Provider name.
        name: String,
        /// Version.
        version: String,
    },
    /// Unexpected endpoint.
    #[error(
        "key \"encryption-config\" of the secret: provider {name:?} has endpoint {endpoint:?}: expected {expected}"
    )]
    Endpoint {
        /// Provider name.
        name: String,
        /// Configured endpoint.
        endpoint: String,
        /// Expected endpoint.
        expected: String,
    },
    /// Two providers of one key have different settings.
    #[error(
        "key \"encryption-config\" of the secret: providers {one:?} and {other:?} of the same key have different settings"
    )]
    Differ {
        /// First provider.
        one: String,
        /// Second provider.
        other: String,
    },
}

/// Plugin required by an EncryptionConfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Key number.
    pub key_id: u64,
    /// Listen address.
    pub endpoint: String,
    /// Whether it encrypts new data or only decrypts existing data.
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

/// Provider entry; entries of other provider types are ignored.
#[derive(Deserialize)]
struct Entry {
    kms: Option<Kms>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kms {
    #[serde(default)]
    name: String,
    /// All settings except the name, compared verbatim.
    #[serde(flatten)]
    settings: BTreeMap<String, serde_json::Value>,
}

impl Kms {
    fn setting(&self, name: &str) -> String {
        self.settings.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    }
}

/// Returns the listen address of the plugin of a key.
#[must_use]
pub fn endpoint(key_id: u64) -> String {
    format!("unix://{SOCKET_FOLDER}/kms-{key_id}.sock")
}

/// Parses an EncryptionConfiguration and returns its plugins without duplicates, latest key first.
pub fn parse(config: &[u8]) -> Result<Vec<Provider>, InvalidProviders> {
    let document: Document =
        serde_json::from_slice(config).map_err(|error| InvalidProviders::Json(error.to_string()))?;
    if document.kind.as_deref().is_some_and(|kind| kind != "EncryptionConfiguration") {
        return Err(InvalidProviders::Json(format!("kind is {:?}", document.kind.unwrap_or_default())));
    }
    let mut found: BTreeMap<u64, (Kms, Provider)> = BTreeMap::new();
    for resource in document.resources {
        for (index, entry) in resource.providers.into_iter().enumerate() {
            let Some(kms) = entry.kms else { continue };
            // The first provider of a resource encrypts new data.
            let role = if index == 0 { KeyRole::Write } else { KeyRole::Read };
            let provider = validate(&kms, role)?;
            match found.get_mut(&provider.key_id) {
                None => {
                    found.insert(provider.key_id, (kms, provider));
                }
                Some((first, _)) if first.settings != kms.settings => {
                    return Err(InvalidProviders::Differ { one: first.name.clone(), other: kms.name });
                }
                Some((_, known)) if role == KeyRole::Write => known.role = KeyRole::Write,
                Some(_) => {}
            }
        }
    }
    Ok(found.into_values().rev().map(|(_, provider)| provider).collect())
}

fn validate(kms: &Kms, role: KeyRole) -> Result<Provider, InvalidProviders> {
    let name = kms.name.clone();
    // Documentation uses `kms-1_secrets`, the operators use `1_secrets`.
    let number = name.split_once('_').map(|(id, _)| id.strip_prefix("kms-").unwrap_or(id));
    let Some(key_id) = number.and_then(parse_key_number) else { return Err(InvalidProviders::Name { name }) };
    let version = kms.setting("apiVersion");
    if version != "v2" {
        return Err(InvalidProviders::Version { name, version });
    }
    let (actual, expected) = (kms.setting("endpoint"), endpoint(key_id));
    if actual != expected {
        return Err(InvalidProviders::Endpoint { name, endpoint: actual, expected });
    }
    Ok(Provider { key_id, endpoint: actual, role })
}

#[cfg(test)]
mod tests;
