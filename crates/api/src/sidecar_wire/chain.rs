//! What a node's seid reports about its chain.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

/// Query parameter of [`path::CHAIN`](super::path::CHAIN): the height whose app hash is requested.
pub const APP_HASH_AT: &str = "appHashAt";

/// The state of the chain, as the node's seid reports it. Readers ignore unknown fields, so older and newer sidecars can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainStatus {
    /// Height of the latest block that was executed; 0 before the first one.
    pub height: i64,

    /// Time of the latest block that is stored. That may be the one after `height`: seid stores a block before it executes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_block_time: Option<MicroTime>,

    /// App hash after the block at `height`: upper-case hexadecimal digits. Computed by this node, so it can differ from the chain's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_hash: Option<String>,

    /// Number of connected peers.
    pub peers: u32,

    /// Whether seid gets blocks by block sync. A node with few peers may follow its chain in this way without end.
    pub catching_up: bool,

    /// Blocks between the node and the highest of its peers, as seid knows it. Absent if that is not known, or more than its
    /// `lag_threshold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<i64>,

    /// Voting power of the validator and of its chain. Absent if the node is not a validator of its chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validator_power: Option<VotingPower>,

    /// The requested app hash; absent if it was not requested or seid does not have the next block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_hash_at: Option<AppHashAt>,
}

/// The voting power of a validator, and of its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VotingPower {
    /// Power of the validator.
    pub own: i64,

    /// Power of all validators of the chain.
    pub total: i64,
}

/// The most blocks that a node in block sync may be behind its peers while it follows its chain: about 40 seconds.
const MAX_FOLLOWING_LAG: i64 = 100;

impl ChainStatus {
    /// Returns whether the node is so far behind its chain that it has to catch up.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.catching_up && self.lag.is_none_or(|lag| lag > MAX_FOLLOWING_LAG)
    }
}

/// The app hash after a block, on which the chain agreed: it is in the header of the next block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppHashAt {
    /// Height of the block.
    pub height: i64,

    /// App hash after the block: upper-case hexadecimal digits.
    pub app_hash: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn chain_status_round_trips() {
        for document in [
            json!({"height": 0, "peers": 0, "catchingUp": true}),
            json!({
                "height": 12, "latestBlockTime": "2026-05-18T10:00:00.123456Z", "appHash": "AB", "peers": 3,
                "catchingUp": false, "lag": 4, "appHashAt": {"height": 7, "appHash": "CD"},
            }),
        ] {
            let parsed: ChainStatus = serde_json::from_value(document.clone()).unwrap();
            assert_eq!(serde_json::to_value(&parsed).unwrap(), document);
        }
    }

    #[test]
    fn block_sync_near_the_peers_is_not_behind() {
        let is_behind = |catching_up: bool, lag: Option<i64>| {
            let document = json!({"height": 1, "peers": 1, "catchingUp": catching_up, "lag": lag});
            serde_json::from_value::<ChainStatus>(document).unwrap().is_behind()
        };
        assert!(!is_behind(true, Some(0)) && !is_behind(true, Some(100)) && !is_behind(false, None));
        assert!(is_behind(true, Some(101)) && is_behind(true, None));
    }

    #[test]
    fn unknown_fields_of_chain_status_are_ignored() {
        let document =
            json!({"height": 1, "peers": 2, "catchingUp": false, "appHashAt": null, "votingPower": "3"});
        let parsed: ChainStatus = serde_json::from_value(document).unwrap();
        assert_eq!((parsed.height, parsed.peers, parsed.app_hash_at), (1, 2, None));
        assert!(serde_json::from_value::<ChainStatus>(json!({"height": 1})).is_err());
    }
}
