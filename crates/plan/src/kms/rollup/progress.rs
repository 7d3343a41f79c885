//! Whether nodes are moving to another key.

use std::collections::{BTreeMap, BTreeSet};

use api::condition::KMSPluginsProgressing;
use api::kms::KeyRole;

use super::agreement::{fingerprint, listed};
use super::input::Expected;
use super::subject::{State, Subject};

/// Whether nodes differ in the keys they have, or in the keys of the KMS that these stand for.
pub(super) fn progressing(expected: &Expected, subjects: &[Subject]) -> (KMSPluginsProgressing, String) {
    let mut sets: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in &expected.nodes {
        sets.entry(deployed(node)).or_default().push(&node.name);
    }
    if sets.len() > 1 {
        return (KMSPluginsProgressing::KeySetsDiffer, listed(&sets));
    }
    let mut reported: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in &expected.nodes {
        let of_node = subjects.iter().filter(|one| one.node == node.name);
        let keys: BTreeSet<&str> = of_node.filter(|one| is_heard(one)).map(|one| one.key.as_str()).collect();
        // Of a node that reports nothing it is not known what it has.
        if !keys.is_empty() {
            let keys: Vec<&str> = keys.into_iter().collect();
            reported.entry(format!("keys {}", keys.join(","))).or_default().push(&node.name);
        }
    }
    if reported.len() > 1 {
        return (KMSPluginsProgressing::KeySetsDiffer, listed(&reported));
    }
    let keys: BTreeSet<&str> = subjects.iter().map(|one| one.key.as_str()).collect();
    for key in keys {
        let mut ids: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for one in subjects.iter().filter(|one| one.key == key) {
            if let Some(id) = &one.remote_key_id {
                ids.entry(fingerprint(id)).or_default().push(&one.node);
            }
        }
        if ids.len() > 1 {
            return (KMSPluginsProgressing::RemoteKeysDiffer, format!("key {key}: {}", listed(&ids)));
        }
    }
    (KMSPluginsProgressing::AsExpected, "all nodes that report have the same keys".into())
}

/// Which keys a node has by what is deployed there, the one that encrypts first.
fn deployed(node: &super::ExpectedNode) -> String {
    let of = |role| node.keys.iter().filter(move |key| key.role == role).map(|key| key.key_id.as_str());
    let text = |keys: Vec<&str>| if keys.is_empty() { "none".into() } else { keys.join(",") };
    format!(
        "write key {}, read keys {}",
        text(of(KeyRole::Write).collect()),
        text(of(KeyRole::Read).collect())
    )
}

/// Whether a report of it is fresh, or at least there.
fn is_heard(subject: &Subject) -> bool {
    matches!(subject.state, State::Healthy | State::Unhealthy | State::Error)
}
