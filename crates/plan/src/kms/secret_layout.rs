//! The Secret that holds an API server's encryption configuration: the configuration, and for each key of a KMS the
//! configuration of its plugin and the files that the plugin reads. All of it is in one Secret, so that it changes at once.

use std::collections::BTreeMap;

use api::names::kms::encryption_config as prefix;
use k8s_openapi::ByteString;

/// What is wrong with a Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The number at the end of a key is none.
    #[error(
        "key {key:?} of the secret must end in \"-\" and the number of a key (digits, no leading zero): rename it"
    )]
    Number {
        /// The key.
        key: String,
    },
    /// A key does not tell whose value it is.
    #[error("key {key:?} of the secret must be {prefix}NAME_KEY-NUMBER: {lacks} is missing")]
    Reference {
        /// The key.
        key: String,
        /// With what it begins.
        prefix: &'static str,
        /// What it lacks.
        lacks: &'static str,
    },
    /// A value is empty.
    #[error("key {key:?} of the secret is empty: fill it or remove it")]
    Empty {
        /// The key.
        key: String,
    },
    /// A name that cannot be told from the key that follows it.
    #[error("{name:?} cannot be the name of an object: it has \"_\" in it, or is empty")]
    Name {
        /// The name.
        name: String,
    },
}

/// What one key of the Secret stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    /// The encryption configuration.
    Config,
    /// The configuration of a plugin.
    PluginConfig(u64),
    /// A value that was copied from a Secret, for a plugin.
    Secret(Reference, u64),
    /// A value that was copied from a ConfigMap, for a plugin.
    ConfigMap(Reference, u64),
}

/// A value of a Secret or of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Name of the object.
    pub name: String,
    /// Key in it.
    pub key: String,
}

impl Reference {
    /// A value. Its parts are told apart by the first `_`, which no name of an object has.
    pub fn new(name: &str, key: &str) -> Result<Self, Malformed> {
        if name.is_empty() || name.contains('_') {
            return Err(Malformed::Name { name: name.into() });
        }
        if key.is_empty() {
            return Err(Malformed::Empty { key: name.into() });
        }
        Ok(Self { name: name.into(), key: key.into() })
    }
}

impl Entry {
    /// Reads a key of the Secret. `None`: it is none of those that we know.
    pub fn read(key: &str) -> Result<Option<Self>, Malformed> {
        if key == prefix::CONFIG {
            return Ok(Some(Self::Config));
        }
        if let Some(rest) = key.strip_prefix(prefix::PLUGIN_CONFIG_PREFIX) {
            return Ok(Some(Self::PluginConfig(number(key, rest)?)));
        }
        for (prefix, make) in [
            (prefix::SECRET_PREFIX, Self::Secret as fn(Reference, u64) -> Self),
            (prefix::CONFIG_MAP_PREFIX, Self::ConfigMap),
        ] {
            if let Some(rest) = key.strip_prefix(prefix) {
                let (reference, id) = referenced(key, prefix, rest)?;
                return Ok(Some(make(reference, id)));
            }
        }
        Ok(None)
    }

    /// The key in the Secret, which is also the name of the file that a plugin reads.
    #[must_use]
    pub fn key(&self) -> String {
        let value = |prefix, Reference { name, key }: &Reference, id| format!("{prefix}{name}_{key}-{id}");
        match self {
            Self::Config => prefix::CONFIG.into(),
            Self::PluginConfig(id) => format!("{}{id}", prefix::PLUGIN_CONFIG_PREFIX),
            Self::Secret(reference, id) => value(prefix::SECRET_PREFIX, reference, id),
            Self::ConfigMap(reference, id) => value(prefix::CONFIG_MAP_PREFIX, reference, id),
        }
    }
}

/// The object, the key in it, and the number at the end.
fn referenced(key: &str, prefix: &'static str, rest: &str) -> Result<(Reference, u64), Malformed> {
    let lacks = |lacks| Malformed::Reference { key: key.into(), prefix, lacks };
    // The number stands after the last dash: names and keys may have dashes and digits at their ends.
    let (reference, id) = rest.rsplit_once('-').ok_or_else(|| Malformed::Number { key: key.into() })?;
    let id = number(key, id)?;
    let (name, data_key) = reference.split_once('_').ok_or_else(|| lacks("\"_\""))?;
    match (name, data_key) {
        ("", _) => Err(lacks("the object's name")),
        (_, "") => Err(lacks("the key in the object")),
        (name, data_key) => Ok((Reference { name: name.into(), key: data_key.into() }, id)),
    }
}

/// A number as it is also written in the name of a socket: with a leading zero, it would be the number of another one.
fn number(key: &str, text: &str) -> Result<u64, Malformed> {
    read_number(text).ok_or_else(|| Malformed::Number { key: key.into() })
}

/// The number of a key: digits without a leading zero.
#[must_use]
pub fn read_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = text == "0" || !text.starts_with('0');
    if digits && plain { text.parse().ok() } else { None }
}

/// What the Secret holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The encryption configuration. Absent: nothing is encrypted by a KMS.
    pub config: Option<Vec<u8>>,
    /// What there is for each plugin, by the number of its key.
    pub plugins: BTreeMap<u64, PluginData>,
}

/// What the Secret holds for one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginData {
    /// Its configuration.
    pub config: Option<Vec<u8>>,
    /// Values that were copied from Secrets.
    pub secrets: BTreeMap<Reference, Vec<u8>>,
    /// Values that were copied from ConfigMaps.
    pub config_maps: BTreeMap<Reference, Vec<u8>>,
}

impl Content {
    /// Reads a Secret's data. One key that cannot be read makes all of it unusable: what it was meant for would be missing.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, Malformed> {
        let mut content = Self::default();
        for (key, ByteString(value)) in data {
            let Some(entry) = Entry::read(key)? else { continue };
            if value.is_empty() {
                return Err(Malformed::Empty { key: key.clone() });
            }
            let value = value.clone();
            match entry {
                Entry::Config => content.config = Some(value),
                Entry::PluginConfig(id) => content.plugin(id).config = Some(value),
                Entry::Secret(reference, id) => {
                    content.plugin(id).secrets.insert(reference, value);
                }
                Entry::ConfigMap(reference, id) => {
                    content.plugin(id).config_maps.insert(reference, value);
                }
            }
        }
        Ok(content)
    }

    fn plugin(&mut self, id: u64) -> &mut PluginData {
        self.plugins.entry(id).or_default()
    }

    /// The data of a Secret that holds it.
    #[must_use]
    pub fn write(&self) -> BTreeMap<String, ByteString> {
        let config = self.config.iter().map(|value| (Entry::Config, value));
        let plugins = self.plugins.iter().flat_map(|(id, data)| {
            let config = data.config.iter().map(|value| (Entry::PluginConfig(*id), value));
            let secrets =
                data.secrets.iter().map(|(reference, value)| (Entry::Secret(reference.clone(), *id), value));
            let config_maps = data
                .config_maps
                .iter()
                .map(|(reference, value)| (Entry::ConfigMap(reference.clone(), *id), value));
            config.chain(secrets).chain(config_maps)
        });
        config.chain(plugins).map(|(entry, value)| (entry.key(), ByteString(value.clone()))).collect()
    }
}

#[cfg(test)]
mod tests;
