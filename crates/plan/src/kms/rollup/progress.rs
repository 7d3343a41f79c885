//! Progress of a switch to another key.

use std::collections::{BTreeMap, BTreeSet};

use api::condition::KMSPluginsProgressing;
use api::kms::{KeyRole, key_id};

use super::agreement::{fingerprint, format_groups};
use super::input::ExpectedReporters;
use super::plugin_state::{PluginObservation, PluginState};

/// Evaluates whether nodes differ in their deployed keys, reported keys or KMS keys.
pub(super) fn progressing(
    expected: &ExpectedReporters,
    plugins: &[PluginObservation],
) -> (KMSPluginsProgressing, String) {
    let mut sets: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in &expected.nodes {
        sets.entry(format_deployed_keys(node)).or_default().push(&node.name);
    }
    if sets.len() > 1 {
        return (KMSPluginsProgressing::KeySetsDiffer, format_groups(&sets));
    }
    // The keys of a node without reports are unknown.
    let mut keys_of: BTreeMap<(&str, Option<&str>), BTreeSet<&str>> = BTreeMap::new();
    let mut ids_of: BTreeMap<&str, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for plugin in plugins {
        let (key, instance) = key_id::split_instance(&plugin.key);
        if is_reported(plugin) {
            keys_of.entry((&plugin.node, instance)).or_default().insert(key);
        }
        if let Some(id) = &plugin.remote_key_id {
            ids_of.entry(key).or_default().entry(fingerprint(id)).or_default().push(&plugin.node);
        }
    }
    let mut reported: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for ((node, _), keys) in keys_of {
        let keys: Vec<&str> = keys.into_iter().collect();
        reported.entry(format!("keys {}", keys.join(","))).or_default().push(node);
    }
    if reported.len() > 1 {
        return (KMSPluginsProgressing::KeySetsDiffer, format_groups(&reported));
    }
    for (key, ids) in ids_of {
        if ids.len() > 1 {
            return (KMSPluginsProgressing::RemoteKeysDiffer, format!("key {key}: {}", format_groups(&ids)));
        }
    }
    (KMSPluginsProgressing::AsExpected, "all reporting nodes have the same keys".into())
}

/// Formats the deployed keys of a node, write key first. The instance of its reporter is no part of a key.
fn format_deployed_keys(node: &super::ExpectedNode) -> String {
    let with_role = |role| {
        let plugins = node.plugins.iter().filter(move |plugin| plugin.role == role);
        plugins.map(|plugin| key_id::split_instance(&plugin.key).0)
    };
    let text = |keys: Vec<&str>| if keys.is_empty() { "none".into() } else { keys.join(",") };
    format!(
        "write key {}, read keys {}",
        text(with_role(KeyRole::Write).collect()),
        text(with_role(KeyRole::Read).collect())
    )
}

/// Reports whether the plugin has a fresh report.
fn is_reported(plugin: &PluginObservation) -> bool {
    matches!(plugin.state, PluginState::Healthy | PluginState::Unhealthy | PluginState::Error)
}
