//! Puts KMS plugins and the reporter into the pod of an API server: what is ours is taken out, then what is wanted is put in.
//! Done twice, it changes nothing; what others put there stays as it is.
//!
//! It works on the JSON of a pod: read into types, a pod would lose every field that is newer than they are. What the API server
//! would fill in is written out, so that a pod which it keeps is not seen as changed.

mod containers;
mod strip;
mod volumes;

use serde_json::Value;

use self::containers::{plugin_container, reporter_container};
use super::plugin::{Files, Plugin, Refusal, configured};
use super::providers::{self, Provider};
use super::secret_layout::{Content, Entry};

/// What is wanted of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The container of the API server, or of who else asks the plugins.
    pub container: String,
    /// Where the plugins' files are: this is what tells a static pod from others.
    pub files: Files,
    /// What else is done with the sockets.
    pub beside: Beside,
}

/// Who learns of the sockets beside the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beside {
    /// A reporter, in a container of its own.
    Reporter(Reporter),
    /// The container itself, by a flag: it checks a configuration before it is used.
    Checker,
}

/// The reporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// Its image.
    pub image: String,
    /// The program and its subcommand.
    pub command: Vec<String>,
    /// Arguments after those that are always given.
    pub args: Vec<String>,
}

/// The pod's spec with the plugins that the content of the encryption-config secret asks for, and with none that it does not.
pub fn inject(pod: &Value, content: &Content, options: &Options) -> Result<Value, Refusal> {
    let config = content.config.as_deref().ok_or_else(|| {
        // To take out every plugin because a key is missing would make what they encrypted unreadable.
        Refusal(format!("the secret has no key {:?}: add it, or name another secret", Entry::Config.key()))
    })?;
    let providers = providers::read(config)?;
    let mut pod = pod.clone();
    check(&pod, options)?;
    strip::strip(&mut pod, &options.container);
    if providers.is_empty() {
        return Ok(pod);
    }
    let mut added = Vec::new();
    for provider in &providers {
        added.push(plugin(provider, content, &options.files)?);
    }
    let sockets = sockets(&providers);
    match &options.beside {
        Beside::Reporter(reporter) => {
            added.push(reporter_container(reporter, &pod, &options.container, &sockets, &options.files)?);
        }
        Beside::Checker => containers::add_flag(&mut pod, &options.container, &sockets)?,
    }
    volumes::mount_sockets(&mut pod, &options.container)?;
    volumes::add(&mut pod, &options.files)?;
    list(&mut pod, "initContainers")?.extend(added);
    Ok(pod)
}

/// The sockets as a flag takes them: the newest key first.
fn sockets(providers: &[Provider]) -> String {
    providers.iter().map(|provider| provider.endpoint.as_str()).collect::<Vec<_>>().join(",")
}

fn plugin(provider: &Provider, content: &Content, files: &Files) -> Result<Value, Refusal> {
    let Provider { key_id, endpoint, .. } = provider;
    let place = Entry::PluginConfig(*key_id).key();
    let given = content.plugins.get(key_id).and_then(|data| Some((data, data.config.as_deref()?)));
    let Some((data, config)) = given else {
        return Err(Refusal(format!(
            "key {place:?} of the secret is missing, and \"encryption-config\" has a provider of key {key_id}: add it"
        )));
    };
    let (kind, config) = configured(config, &format!("key {place:?} of the secret"))?;
    let program = kind.program(&Plugin { key_id: *key_id, endpoint, config: &config, data, files })?;
    plugin_container(&format!("{}{key_id}", kind.container_prefix()), program, files)
}

/// Whether this is a pod that plugins can be put into.
fn check(pod: &Value, options: &Options) -> Result<(), Refusal> {
    let name = &options.container;
    if name.is_empty() {
        return Err(Refusal("the name of the API server's container is empty: give it".into()));
    }
    let containers = pod["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = containers.iter().filter_map(|one| one["name"].as_str()).collect();
    if names.contains(&name.as_str()) {
        return Ok(());
    }
    Err(Refusal(format!(
        "the pod has no container {name:?}: name the API server's; there is {}",
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    )))
}

/// A list of the pod's spec, which may be absent.
fn list<'a>(pod: &'a mut Value, name: &str) -> Result<&'a mut Vec<Value>, Refusal> {
    let Value::Object(fields) = pod else { return Err(Refusal("a pod's spec must be an object".into())) };
    let list = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut().ok_or_else(|| Refusal(format!("{name} of the pod must be a list")))
}

/// The container of a name. [`check`] has seen it.
fn container<'a>(pod: &'a mut Value, name: &str) -> Result<&'a mut Value, Refusal> {
    let found = list(pod, "containers")?.iter_mut().find(|one| one["name"] == name);
    found.ok_or_else(|| Refusal(format!("the pod has no container {name:?}")))
}

/// As JSON. Types of Kubernetes can always be written.
fn json(value: &impl serde::Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal(error.to_string()))
}
