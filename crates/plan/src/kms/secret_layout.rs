//! Encryption-config Secret of an API server: the EncryptionConfiguration, and for each KMS key the configuration and files of its
//! plugin. One Secret holds everything, so that updates are atomic.

use std::collections::BTreeMap;

use api::names::kms::encryption_config as prefix;
use k8s_openapi::ByteString;

/// Error returned for an invalid Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecret {
    /// Missing or malformed key number.
    #[error(
        "key {key:?} of the secret must end in \"-\" and a key number (digits, no leading zero): rename it"
    )]
    Number {
        /// Key in the Secret.
        key: String,
    },
    /// Malformed object reference.
    #[error("key {key:?} of the secret must be {prefix}NAME_KEY-NUMBER: {lacks} is missing")]
    Reference {
        /// Key in the Secret.
        key: String,
        /// Prefix of the key.
        prefix: &'static str,
        /// Missing part.
        lacks: &'static str,
    },
    /// Empty value.
    #[error("key {key:?} of the secret is empty: set or remove it")]
    Empty {
        /// Key in the Secret.
        key: String,
    },
    /// Object name that cannot be separated from the key that follows it.
    #[error("invalid object name {name:?}: must not be empty or contain \"_\"")]
    Name {
        /// Object name.
        name: String,
    },
}

/// Key of the Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretEntry {
    /// EncryptionConfiguration.
    Config,
    /// Configuration of a plugin.
    PluginConfig(u64),
    /// Plugin value copied from a Secret.
    Secret(ObjectKeyRef, u64),
    /// Plugin value copied from a ConfigMap.
    ConfigMap(ObjectKeyRef, u64),
}

/// Reference to a value of a Secret or ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKeyRef {
    /// Name of the object.
    pub name: String,
    /// Key in the object.
    pub key: String,
}

impl ObjectKeyRef {
    /// Creates a reference. The first `_` separates name and key, because object names never contain it.
    pub fn new(name: &str, key: &str) -> Result<Self, InvalidSecret> {
        if name.is_empty() || name.contains('_') {
            return Err(InvalidSecret::Name { name: name.into() });
        }
        if key.is_empty() {
            return Err(InvalidSecret::Empty { key: name.into() });
        }
        Ok(Self { name: name.into(), key: key.into() })
    }
}

impl SecretEntry {
    /// Parses a key of the Secret. Returns `None` for unrelated keys.
    pub fn parse(key: &str) -> Result<Option<Self>, InvalidSecret> {
        if key == prefix::CONFIG {
            return Ok(Some(Self::Config));
        }
        if let Some(rest) = key.strip_prefix(prefix::PLUGIN_CONFIG_PREFIX) {
            return Ok(Some(Self::PluginConfig(key_number(key, rest)?)));
        }
        for (prefix, make) in [
            (prefix::SECRET_PREFIX, Self::Secret as fn(ObjectKeyRef, u64) -> Self),
            (prefix::CONFIG_MAP_PREFIX, Self::ConfigMap),
        ] {
            if let Some(rest) = key.strip_prefix(prefix) {
                let (reference, id) = parse_reference(key, prefix, rest)?;
                return Ok(Some(make(reference, id)));
            }
        }
        Ok(None)
    }

    /// Returns the key in the Secret, which is also the file name for the plugin.
    #[must_use]
    pub fn key(&self) -> String {
        let value =
            |prefix, ObjectKeyRef { name, key }: &ObjectKeyRef, id| format!("{prefix}{name}_{key}-{id}");
        match self {
            Self::Config => prefix::CONFIG.into(),
            Self::PluginConfig(id) => format!("{}{id}", prefix::PLUGIN_CONFIG_PREFIX),
            Self::Secret(reference, id) => value(prefix::SECRET_PREFIX, reference, id),
            Self::ConfigMap(reference, id) => value(prefix::CONFIG_MAP_PREFIX, reference, id),
        }
    }
}

/// Parses object name, key and key number.
fn parse_reference(
    key: &str,
    prefix: &'static str,
    rest: &str,
) -> Result<(ObjectKeyRef, u64), InvalidSecret> {
    let lacks = |lacks| InvalidSecret::Reference { key: key.into(), prefix, lacks };
    // The key number follows the last dash, because names and keys may end with dashes and digits.
    let (reference, id) = rest.rsplit_once('-').ok_or_else(|| InvalidSecret::Number { key: key.into() })?;
    let id = key_number(key, id)?;
    let (name, data_key) = reference.split_once('_').ok_or_else(|| lacks("\"_\""))?;
    match (name, data_key) {
        ("", _) => Err(lacks("the object name")),
        (_, "") => Err(lacks("the key in the object")),
        (name, data_key) => Ok((ObjectKeyRef { name: name.into(), key: data_key.into() }, id)),
    }
}

/// Parses the key number of a Secret key. Leading zeros are rejected, because the number is also part of the socket name.
fn key_number(key: &str, text: &str) -> Result<u64, InvalidSecret> {
    parse_key_number(text).ok_or_else(|| InvalidSecret::Number { key: key.into() })
}

/// Parses a key number: digits without a leading zero.
#[must_use]
pub fn parse_key_number(text: &str) -> Option<u64> {
    let is_numeric = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = text == "0" || !text.starts_with('0');
    if is_numeric && is_canonical { text.parse().ok() } else { None }
}

/// Parsed Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionSecret {
    /// EncryptionConfiguration. `None`: KMS encryption is not configured.
    pub config: Option<Vec<u8>>,
    /// Plugin data by key number.
    pub plugins: BTreeMap<u64, PluginData>,
}

/// Data of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginData {
    /// Configuration.
    pub config: Option<Vec<u8>>,
    /// Values copied from Secrets.
    pub secrets: BTreeMap<ObjectKeyRef, Vec<u8>>,
    /// Values copied from ConfigMaps.
    pub config_maps: BTreeMap<ObjectKeyRef, Vec<u8>>,
}

impl EncryptionSecret {
    /// Parses the data of a Secret. One malformed key fails the whole Secret, because its data would be missing.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, InvalidSecret> {
        let mut content = Self::default();
        for (key, ByteString(value)) in data {
            let Some(entry) = SecretEntry::parse(key)? else { continue };
            if value.is_empty() {
                return Err(InvalidSecret::Empty { key: key.clone() });
            }
            let value = value.clone();
            match entry {
                SecretEntry::Config => content.config = Some(value),
                SecretEntry::PluginConfig(id) => content.plugin(id).config = Some(value),
                SecretEntry::Secret(reference, id) => {
                    content.plugin(id).secrets.insert(reference, value);
                }
                SecretEntry::ConfigMap(reference, id) => {
                    content.plugin(id).config_maps.insert(reference, value);
                }
            }
        }
        Ok(content)
    }

    fn plugin(&mut self, id: u64) -> &mut PluginData {
        self.plugins.entry(id).or_default()
    }

    /// Renders the data of the Secret.
    #[must_use]
    pub fn write(&self) -> BTreeMap<String, ByteString> {
        let config = self.config.iter().map(|value| (SecretEntry::Config, value));
        let plugins = self.plugins.iter().flat_map(|(id, data)| {
            let config = data.config.iter().map(|value| (SecretEntry::PluginConfig(*id), value));
            let secrets = data
                .secrets
                .iter()
                .map(|(reference, value)| (SecretEntry::Secret(reference.clone(), *id), value));
            let config_maps = data
                .config_maps
                .iter()
                .map(|(reference, value)| (SecretEntry::ConfigMap(reference.clone(), *id), value));
            config.chain(secrets).chain(config_maps)
        });
        config.chain(plugins).map(|(entry, value)| (entry.key(), ByteString(value.clone()))).collect()
    }
}

#[cfg(test)]
mod tests;
