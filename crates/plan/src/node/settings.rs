//! The settings of seid: those of its kind, overridden by those of the spec.

use std::collections::BTreeMap;

use api::SeiNode;

use super::kind::NodeKind;

/// The number of blocks between two snapshots.
const SNAPSHOT_INTERVAL: &str = "2000";

/// The setting that holds the announced address.
const EXTERNAL_ADDRESS: &str = "network.p2p.external_address";

/// Returns the address that a node announces, if any.
#[must_use]
pub fn external_address(node: &SeiNode) -> Option<&str> {
    let observed = node.status.as_ref().and_then(|status| status.external_address.as_deref());
    node.spec.external_address.as_deref().or(observed).filter(|address| !address.is_empty())
}

/// Returns every setting that differs from the defaults of the kind, by dotted name.
#[must_use]
pub fn settings(node: &SeiNode, kind: NodeKind<'_>) -> BTreeMap<String, String> {
    // A default: the spec may override it.
    let mut settings: BTreeMap<String, String> = [("logging.level".into(), "info".into())].into();
    if let Some(address) = external_address(node) {
        settings.insert(EXTERNAL_ADDRESS.into(), address.into());
    }
    let keep_recent = kind.snapshot_generation().keep_recent;
    if keep_recent > 0 {
        settings.insert("storage.snapshot_interval".into(), SNAPSHOT_INTERVAL.into());
        settings.insert("storage.snapshot_keep_recent".into(), keep_recent.to_string());
    }
    for (name, value) in kind_settings(kind) {
        settings.insert((*name).into(), (*value).into());
    }
    settings.extend(node.spec.overrides.clone());
    settings
}

fn kind_settings(kind: NodeKind<'_>) -> &'static [(&'static str, &'static str)] {
    match kind {
        NodeKind::Full(_) if kind.snapshot_generation().keep_recent > 0 => &[
            ("storage.pruning_keep_recent", "50000"),
            ("storage.pruning_keep_every", "0"),
            ("chain.min_retain_blocks", "50000"),
            ("network.p2p.max_connections", "500"),
            ("network.p2p.send_rate", "20971520"),
            ("network.p2p.recv_rate", "20971520"),
        ],
        NodeKind::Replayer(_) => &[
            ("storage.state_commit.async_commit_buffer", "100"),
            ("storage.state_commit.memiavl.snapshot_keep_recent", "2"),
            ("storage.state_commit.memiavl.snapshot_min_time_interval", "3600"),
        ],
        _ => &[],
    }
}
