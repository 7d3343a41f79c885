//! Progress of a switch to another key.

use std::collections::{BTreeMap, BTreeSet};

use api::condition::KMSPluginsProgressing;
use api::kms::KeyRole;

use super::agreement::{fingerprint, format_groups};
use super::input::ExpectedReporters;
use super::plugin_state::{PluginObservation, PluginState};

/// Evaluates whether nodes differ in their format_deployed_keys keys, reported keys or KMS keys.
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
    let mut reported: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in &expected.nodes {
        let of_node = plugins.iter().filter(|one| one.node == node.name);
        let keys: BTreeSet<&str> =
            of_node.filter(|one| is_reported(one)).map(|one| one.key.as_str()).collect();
        // The keys of a node without reports are unknown.
        if !keys.is_empty() {
            let keys: Vec<&str> = keys.into_iter().collect();
            reported.entry(format!("keys {}", keys.join(","))).or_default().push(&node.name);
        }
    }
    if reported.len() > 1 {
        return (KMSPluginsProgressing::KeySetsDiffer, format_groups(&reported));
    }
    let keys: BTreeSet<&str> = plugins.iter().map(|one| one.key.as_str()).collect();
    for key in keys {
        let mut ids: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for one in plugins.iter().filter(|one| one.key == key) {
            if let Some(id) = &one.remote_key_id {
                ids.entry(fingerprint(id)).or_default().push(&one.node);
            }
        }
        if ids.len() > 1 {
            return (KMSPluginsProgressing::RemoteKeysDiffer, format!("key {key}: {}", format_groups(&ids)));
        }
    }
    (KMSPluginsProgressing::AsExpected, "all reporting nodes have the same keys".into())
}

/// Formats the format_deployed_keys keys of a node, write key first.
fn format_deployed_keys(node: &super::ExpectedNode) -> String {
    let with_role =
        |role| node.keys.iter().filter(move |key| key.role == role).map(|key| key.key_id.as_str());
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
