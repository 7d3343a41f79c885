//! Injects KMS plugins and the reporter into an API server pod: removes previously injected parts, then adds the desired ones.
//! Idempotent; other containers and volumes are unchanged.
//!
//! Operates on JSON, because typed structs would drop unknown fields. API server defaults are written explicitly, so that a stored pod
//! does not appear as drifted.

mod containers;
mod strip;
mod volumes;

use serde_json::Value;

use self::containers::{plugin_container, reporter_container};
use super::plugin::{InvalidKmsConfig, Plugin, PluginFiles, parse_plugin_config};
use super::providers::{self, Provider};
use super::secret_layout::{EncryptionSecret, SecretEntry};

/// Injection options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectOptions {
    /// Container that uses the plugins, usually the API server.
    pub container: String,
    /// Location of the plugin files, which distinguishes static pods.
    pub files: PluginFiles,
    /// Additional consumer of the sockets.
    pub consumer: SocketConsumer,
}

/// Consumer of the plugin sockets besides the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketConsumer {
    /// Reporter in a separate container.
    Reporter(Reporter),
    /// The container itself, through a flag, for preflight checks.
    Checker,
}

/// Reporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// Image.
    pub image: String,
    /// Program and subcommand.
    pub command: Vec<String>,
    /// Additional arguments.
    pub args: Vec<String>,
}

/// Returns the pod spec with exactly the plugins that the encryption-config Secret requires.
pub fn inject(
    pod: &Value,
    content: &EncryptionSecret,
    options: &InjectOptions,
) -> Result<Value, InvalidKmsConfig> {
    let config = content.config.as_deref().ok_or_else(|| {
        // Removing all plugins because of a missing key would make encrypted data unreadable.
        InvalidKmsConfig(format!(
            "the secret has no key {:?}: add it or use another secret",
            SecretEntry::Config.key()
        ))
    })?;
    let providers = providers::parse(config)?;
    let mut pod = pod.clone();
    check_container(&pod, options)?;
    strip::strip(&mut pod, &options.container);
    if providers.is_empty() {
        return Ok(pod);
    }
    let mut added = Vec::new();
    for provider in &providers {
        added.push(plugin(provider, content, &options.files)?);
    }
    let sockets = sockets(&providers);
    match &options.consumer {
        SocketConsumer::Reporter(reporter) => {
            added.push(reporter_container(reporter, &pod, &options.container, &sockets, &options.files)?);
        }
        SocketConsumer::Checker => containers::add_flag(&mut pod, &options.container, &sockets)?,
    }
    volumes::mount_sockets(&mut pod, &options.container)?;
    volumes::add(&mut pod, &options.files)?;
    list_field(&mut pod, "initContainers")?.extend(added);
    Ok(pod)
}

/// Formats the sockets for a flag, latest key first.
fn sockets(providers: &[Provider]) -> String {
    providers.iter().map(|provider| provider.endpoint.as_str()).collect::<Vec<_>>().join(",")
}

fn plugin(
    provider: &Provider,
    content: &EncryptionSecret,
    files: &PluginFiles,
) -> Result<Value, InvalidKmsConfig> {
    let Provider { key_id, endpoint, .. } = provider;
    let secret_key = SecretEntry::PluginConfig(*key_id).key();
    let plugin_data = content.plugins.get(key_id).and_then(|data| Some((data, data.config.as_deref()?)));
    let Some((data, config)) = plugin_data else {
        return Err(InvalidKmsConfig(format!(
            "key {secret_key:?} of the secret is missing, but \"encryption-config\" has a provider for key {key_id}: add it"
        )));
    };
    let (kind, config) = parse_plugin_config(config, &format!("key {secret_key:?} of the secret"))?;
    let program = kind.container(&Plugin { key_id: *key_id, endpoint, config: &config, data, files })?;
    plugin_container(&format!("{}{key_id}", kind.container_prefix()), program, files)
}

/// Checks that the pod has the container.
fn check_container(pod: &Value, options: &InjectOptions) -> Result<(), InvalidKmsConfig> {
    let name = &options.container;
    if name.is_empty() {
        return Err(InvalidKmsConfig("the name of the API server container is required".into()));
    }
    let containers = pod["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = containers.iter().filter_map(|one| one["name"].as_str()).collect();
    if names.contains(&name.as_str()) {
        return Ok(());
    }
    Err(InvalidKmsConfig(format!(
        "the pod has no container {name:?}: use the API server container; found {}",
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    )))
}

/// Returns a list field and creates it if absent.
fn list_field<'a>(pod: &'a mut Value, name: &str) -> Result<&'a mut Vec<Value>, InvalidKmsConfig> {
    let Value::Object(fields) = pod else {
        return Err(InvalidKmsConfig("the pod spec must be an object".into()));
    };
    let list = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut().ok_or_else(|| InvalidKmsConfig(format!("field {name} of the pod must be a list")))
}

/// Returns a container, whose existence [`check_container`] has verified.
fn container<'a>(pod: &'a mut Value, name: &str) -> Result<&'a mut Value, InvalidKmsConfig> {
    let found = list_field(pod, "containers")?.iter_mut().find(|one| one["name"] == name);
    found.ok_or_else(|| InvalidKmsConfig(format!("the pod has no container {name:?}")))
}

/// Converts to JSON, which does not fail for Kubernetes types.
fn json(value: &impl serde::Serialize) -> Result<Value, InvalidKmsConfig> {
    serde_json::to_value(value).map_err(|error| InvalidKmsConfig(error.to_string()))
}
