//! Sources of a node's initial peers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::rule::validations;

/// A source of peers. Exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::PEER_SOURCE)))]
pub struct PeerSource {
    /// EC2 instances selected by tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ec2_tags: Option<Ec2TagsPeers>,

    /// A static list of peers.
    #[serde(default, rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_peers: Option<StaticPeers>,

    /// `SeiNode` objects of this cluster selected by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelPeers>,
}

/// EC2 instances selected by tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ec2TagsPeers {
    /// AWS region to search.
    #[schemars(length(min = 1, max = 64))]
    pub region: String,

    /// Tags that an instance must have. All of them must match.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 50))]
    pub tags: BTreeMap<String, String>,
}

/// A static list of peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::STATIC_PEERS)))]
pub struct StaticPeers {
    /// Peer addresses in the form `nodeId@host:port`.
    #[schemars(length(min = 1, max = 256), inner(length(max = 320)))]
    pub addresses: Vec<String>,
}

/// `SeiNode` objects selected by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelPeers {
    /// Labels that a `SeiNode` must have. All of them must match.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 64))]
    pub selector: BTreeMap<String, String>,

    /// Namespace to search. Defaults to the namespace of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
}
