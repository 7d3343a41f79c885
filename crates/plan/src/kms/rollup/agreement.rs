//! Convergence of all nodes on one KMS key. Key rotations rely on it, so stale, missing or unhealthy reports never count as
//! convergence.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::condition::{KMSRemoteKeyConverged, Reason as _};
use api::kms::{KeyRole, key_id};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::input::ClockReading;
use super::plugin_state::{PluginObservation, PluginState};
use super::state::{Agreed, RollupState};

/// Time for which nodes must agree before the key counts as converged.
const SETTLE_TIME: Duration = Duration::from_secs(300);

/// Number of digest characters in messages.
const DIGEST_LENGTH: usize = 12;

/// Maximum number of listed nodes per key.
const MAX_LISTED: usize = 20;

/// Returns the digest of a key ID for messages, because key IDs contain addresses and names of the KMS.
pub(super) fn fingerprint(id: &str) -> String {
    let hex: String = Sha256::digest(id.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", hex.get(..DIGEST_LENGTH).unwrap_or(&hex))
}

/// Formats groups of nodes: `<label> on <nodes>; ...`.
pub(super) fn format_groups(by: &BTreeMap<String, Vec<&str>>) -> String {
    let part = |(what, nodes): (&String, &Vec<&str>)| {
        let named = nodes.iter().take(MAX_LISTED).copied().collect::<Vec<_>>().join(", ");
        let more = match nodes.len().saturating_sub(MAX_LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{what} on {named}{more}")
    };
    by.iter().map(part).collect::<Vec<_>>().join("; ")
}

/// Evaluates whether all nodes have used one KMS key for [`SETTLE_TIME`], or one for each write key if there are several.
pub(super) fn converged(
    plugins: &[PluginObservation],
    are_nodes_known: bool,
    stored: &[Condition],
    state: &mut RollupState,
    now: ClockReading,
    due: &mut Vec<Duration>,
) -> (KMSRemoteKeyConverged, String) {
    let writers: Vec<&PluginObservation> = plugins.iter().filter(|one| one.role == KeyRole::Write).collect();
    let usage = KeyUsage::new(&writers);
    if let Some(reason) = usage.disagreement(&writers, are_nodes_known) {
        // Any disagreement restarts the settle time.
        state.agreed = None;
        return reason;
    }
    let id = usage.ids().collect::<Vec<_>>().join("\n");
    let digests = usage.ids().map(fingerprint).collect::<Vec<_>>().join(", ");
    let agreed = match state.agreed.take() {
        Some(agreed) if agreed.id == id => agreed,
        Some(_) => Agreed { id, since: Some(now.monotonic), wall: now.wall },
        None => match converged_since(stored, &digests).filter(|_| !state.has_observed()) {
            Some(wall) => Agreed { id, since: None, wall },
            None => Agreed { id, since: Some(now.monotonic), wall: now.wall },
        },
    };
    let wall = Timestamp::from_second(agreed.wall.as_second()).unwrap_or(agreed.wall);
    let message = format!("all {} nodes use {digests} since {wall}", usage.keys_of.len());
    let settled = agreed.since.is_none_or(|since| now.monotonic.saturating_sub(since) >= SETTLE_TIME);
    due.extend(agreed.since.filter(|_| !settled).map(|since| since + SETTLE_TIME));
    state.agreed = Some(agreed);
    (if settled { KMSRemoteKeyConverged::Converged } else { KMSRemoteKeyConverged::Settling }, message)
}

/// Which nodes use which KMS keys.
struct KeyUsage<'a> {
    /// Nodes by write key and ID of the KMS key.
    nodes: BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a str>>>,
    /// Write keys by node and instance of the reporter.
    keys_of: BTreeMap<(&'a str, Option<&'a str>), BTreeSet<&'a str>>,
}

impl<'a> KeyUsage<'a> {
    fn new(writers: &[&'a PluginObservation]) -> Self {
        let mut usage = Self { nodes: BTreeMap::new(), keys_of: BTreeMap::new() };
        for one in writers {
            let (key, instance) = key_id::split_instance(&one.key);
            usage.keys_of.entry((&one.node, instance)).or_default().insert(key);
            if let Some(id) = &one.remote_key_id {
                usage.nodes.entry(key).or_default().entry(id).or_default().push(&one.node);
            }
        }
        usage
    }

    /// Returns the IDs of the KMS keys, ordered by write key.
    fn ids(&self) -> impl Iterator<Item = &'a str> {
        self.nodes.values().flat_map(|nodes| nodes.keys().copied())
    }

    /// Returns why the nodes do not agree.
    fn disagreement(
        &self,
        writers: &[&PluginObservation],
        are_nodes_known: bool,
    ) -> Option<(KMSRemoteKeyConverged, String)> {
        let diverged = self.nodes.values().find(|ids| ids.len() > 1);
        let unknown =
            writers.iter().filter(|one| one.state.is_unknown() && one.state != PluginState::NeverReported);
        let without: Vec<&str> =
            writers.iter().filter(|one| one.remote_key_id.is_none()).map(|one| one.node.as_str()).collect();
        let mut key_sets = self.keys_of.values();
        let first = key_sets.next();
        if let Some(ids) = diverged {
            let by_digest: BTreeMap<String, Vec<&str>> =
                ids.iter().map(|(id, nodes)| (fingerprint(id), nodes.clone())).collect();
            Some((KMSRemoteKeyConverged::Diverged, format_groups(&by_digest)))
        } else if key_sets.any(|keys| Some(keys) != first) {
            Some((KMSRemoteKeyConverged::Incomplete, "nodes use different write plugins".into()))
        } else if let stale @ 1.. = unknown.count() {
            Some((
                KMSRemoteKeyConverged::ReportsStale,
                format!("{stale} of {} reports are stale or invalid", writers.len()),
            ))
        } else if !are_nodes_known {
            Some((
                KMSRemoteKeyConverged::InputUnavailable,
                "nodes may be missing: an input is unavailable".into(),
            ))
        } else if writers.is_empty() {
            Some((KMSRemoteKeyConverged::Incomplete, "no node is expected to report".into()))
        } else if !without.is_empty() {
            let nodes = BTreeMap::from([("remote key ID unknown".to_owned(), without)]);
            Some((KMSRemoteKeyConverged::Incomplete, format_groups(&nodes)))
        } else {
            None
        }
    }
}

/// Returns the time since when the stored condition reports these keys as converged. A restarted process keeps it while the reports
/// are unchanged.
fn converged_since(stored: &[Condition], digests: &str) -> Option<Timestamp> {
    let converged = KMSRemoteKeyConverged::Converged;
    let condition = stored
        .iter()
        .find(|one| one.type_ == KMSRemoteKeyConverged::CONDITION && one.reason == converged.as_str())?;
    let (prefix, since) = condition.message.rsplit_once(" since ")?;
    if prefix.ends_with(&format!(" use {digests}")) { since.parse().ok() } else { None }
}
