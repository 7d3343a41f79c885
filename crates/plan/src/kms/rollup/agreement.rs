//! Whether all nodes encrypt with one key of the KMS: what a rotation may rely on, so that nothing stale, missing or sick is
//! ever taken for agreement.

use std::collections::BTreeMap;
use std::time::Duration;

use api::condition::{KMSRemoteKeyConverged, Reason as _};
use api::kms::KeyRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::input::Now;
use super::memory::{Agreed, Memory};
use super::subject::{State, Subject};

/// So long nodes have to agree before it is relied on.
const SETTLE: Duration = Duration::from_secs(300);

/// So much of a digest tells keys apart.
const SHOWN: usize = 12;

/// Most nodes of one key that are named.
const MOST_NAMED: usize = 20;

/// A key id as people see it: ids hold addresses and names of the KMS.
pub(super) fn fingerprint(id: &str) -> String {
    let hex: String = Sha256::digest(id.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", hex.get(..SHOWN).unwrap_or(&hex))
}

/// What is the same, and of which nodes.
pub(super) fn listed(by: &BTreeMap<String, Vec<&str>>) -> String {
    let part = |(what, nodes): (&String, &Vec<&str>)| {
        let named = nodes.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match nodes.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{what} on {named}{more}")
    };
    by.iter().map(part).collect::<Vec<_>>().join("; ")
}

/// Whether all nodes encrypt with one key of the KMS, and have done so for long enough.
pub(super) fn converged(
    subjects: &[Subject],
    stored: &[Condition],
    memory: &mut Memory,
    now: Now,
    due: &mut Vec<Duration>,
) -> (KMSRemoteKeyConverged, String) {
    let writers: Vec<&Subject> = subjects.iter().filter(|one| one.role == KeyRole::Write).collect();
    let mut ids: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut raw: BTreeMap<&str, ()> = BTreeMap::new();
    for one in &writers {
        if let Some(id) = &one.remote_key_id {
            raw.insert(id, ());
            ids.entry(fingerprint(id)).or_default().push(&one.node);
        }
    }
    let keys_differ = writers.iter().any(|one| one.key != writers[0].key);
    let unknown = writers.iter().filter(|one| one.state.is_unknown() && one.state != State::NeverReported);
    let without: Vec<&str> =
        writers.iter().filter(|one| one.remote_key_id.is_none()).map(|one| one.node.as_str()).collect();
    let refused = if raw.len() > 1 {
        Some((KMSRemoteKeyConverged::Diverged, listed(&ids)))
    } else if keys_differ {
        Some((KMSRemoteKeyConverged::Incomplete, "nodes encrypt with different plugins".into()))
    } else if let stale @ 1.. = unknown.count() {
        Some((
            KMSRemoteKeyConverged::ReportsStale,
            format!("{stale} of {} reports cannot be relied on", writers.len()),
        ))
    } else if writers.is_empty() || !without.is_empty() {
        let nodes = BTreeMap::from([("no key is known".to_owned(), without)]);
        let none = writers.is_empty();
        let message = if none { "no node is expected to report".into() } else { listed(&nodes) };
        Some((KMSRemoteKeyConverged::Incomplete, message))
    } else {
        None
    };
    let id = raw.keys().next().copied().unwrap_or_default();
    if let Some(refused) = refused {
        // Whatever is no agreement begins the wait anew.
        memory.agreed = None;
        return refused;
    }
    let agreed = match memory.agreed.take() {
        Some(agreed) if agreed.id == id => agreed,
        Some(_) => Agreed { id: id.to_owned(), since: Some(now.steady), wall: now.wall },
        None => match relied_on(stored, id).filter(|_| !memory.has_looked()) {
            Some(wall) => Agreed { id: id.to_owned(), since: None, wall },
            None => Agreed { id: id.to_owned(), since: Some(now.steady), wall: now.wall },
        },
    };
    let wall = Timestamp::from_second(agreed.wall.as_second()).unwrap_or(agreed.wall);
    let message = format!("all {} nodes use {} since {wall}", writers.len(), fingerprint(id));
    let settled = agreed.since.is_none_or(|since| now.steady.saturating_sub(since) >= SETTLE);
    due.extend(agreed.since.filter(|_| !settled).map(|since| since + SETTLE));
    memory.agreed = Some(agreed);
    (if settled { KMSRemoteKeyConverged::Converged } else { KMSRemoteKeyConverged::Settling }, message)
}

/// Since when the key was relied on by what is stored. A process that begins to look does not take that back as long as it
/// sees the same.
fn relied_on(stored: &[Condition], id: &str) -> Option<Timestamp> {
    let converged = KMSRemoteKeyConverged::Converged;
    let condition = stored
        .iter()
        .find(|one| one.type_ == KMSRemoteKeyConverged::CONDITION && one.reason == converged.as_str())?;
    let (said, since) = condition.message.rsplit_once(" since ")?;
    if said.ends_with(&format!(" use {}", fingerprint(id))) { since.parse().ok() } else { None }
}
