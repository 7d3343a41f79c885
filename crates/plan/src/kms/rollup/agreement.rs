//! Convergence of all nodes on one KMS key. Key rotations rely on it, so stale, missing or unhealthy reports never count as
//! convergence.

use std::collections::BTreeMap;
use std::time::Duration;

use api::condition::{KMSRemoteKeyConverged, Reason as _};
use api::kms::KeyRole;
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

/// Maximum number of format_groups nodes per key.
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

/// Evaluates whether all nodes have used one KMS key for [`SETTLE_TIME`].
pub(super) fn converged(
    plugins: &[PluginObservation],
    stored: &[Condition],
    state: &mut RollupState,
    now: ClockReading,
    due: &mut Vec<Duration>,
) -> (KMSRemoteKeyConverged, String) {
    let writers: Vec<&PluginObservation> = plugins.iter().filter(|one| one.role == KeyRole::Write).collect();
    let mut ids: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut raw: BTreeMap<&str, ()> = BTreeMap::new();
    for one in &writers {
        if let Some(id) = &one.remote_key_id {
            raw.insert(id, ());
            ids.entry(fingerprint(id)).or_default().push(&one.node);
        }
    }
    let keys_differ = writers.iter().any(|one| one.key != writers[0].key);
    let unknown =
        writers.iter().filter(|one| one.state.is_unknown() && one.state != PluginState::NeverReported);
    let without: Vec<&str> =
        writers.iter().filter(|one| one.remote_key_id.is_none()).map(|one| one.node.as_str()).collect();
    let not_converged = if raw.len() > 1 {
        Some((KMSRemoteKeyConverged::Diverged, format_groups(&ids)))
    } else if keys_differ {
        Some((KMSRemoteKeyConverged::Incomplete, "nodes use different write plugins".into()))
    } else if let stale @ 1.. = unknown.count() {
        Some((
            KMSRemoteKeyConverged::ReportsStale,
            format!("{stale} of {} reports are stale or invalid", writers.len()),
        ))
    } else if writers.is_empty() || !without.is_empty() {
        let nodes = BTreeMap::from([("remote key ID unknown".to_owned(), without)]);
        let none = writers.is_empty();
        let message = if none { "no node is expected to report".into() } else { format_groups(&nodes) };
        Some((KMSRemoteKeyConverged::Incomplete, message))
    } else {
        None
    };
    let id = raw.keys().next().copied().unwrap_or_default();
    if let Some(reason) = not_converged {
        // Any disagreement restarts the settle time.
        state.agreed = None;
        return reason;
    }
    let agreed = match state.agreed.take() {
        Some(agreed) if agreed.id == id => agreed,
        Some(_) => Agreed { id: id.to_owned(), since: Some(now.monotonic), wall: now.wall },
        None => match converged_since(stored, id).filter(|_| !state.has_observed()) {
            Some(wall) => Agreed { id: id.to_owned(), since: None, wall },
            None => Agreed { id: id.to_owned(), since: Some(now.monotonic), wall: now.wall },
        },
    };
    let wall = Timestamp::from_second(agreed.wall.as_second()).unwrap_or(agreed.wall);
    let message = format!("all {} nodes use {} since {wall}", writers.len(), fingerprint(id));
    let settled = agreed.since.is_none_or(|since| now.monotonic.saturating_sub(since) >= SETTLE_TIME);
    due.extend(agreed.since.filter(|_| !settled).map(|since| since + SETTLE_TIME));
    state.agreed = Some(agreed);
    (if settled { KMSRemoteKeyConverged::Converged } else { KMSRemoteKeyConverged::Settling }, message)
}

/// Returns the time since when the stored condition reports this key as converged. A restarted process keeps it while the reports
/// are unchanged.
fn converged_since(stored: &[Condition], id: &str) -> Option<Timestamp> {
    let converged = KMSRemoteKeyConverged::Converged;
    let condition = stored
        .iter()
        .find(|one| one.type_ == KMSRemoteKeyConverged::CONDITION && one.reason == converged.as_str())?;
    let (prefix, since) = condition.message.rsplit_once(" since ")?;
    if prefix.ends_with(&format!(" use {}", fingerprint(id))) { since.parse().ok() } else { None }
}
