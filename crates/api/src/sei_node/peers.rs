//! Where a node finds its first peers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::rule::validations;

/// One source of peers: exactly one of its fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::PEER_SOURCE)))]
pub struct PeerSource {
    /// Machines in EC2 that carry these tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ec2_tags: Option<Ec2TagsPeers>,

    /// A fixed list.
    #[serde(default, rename = "static", skip_serializing_if = "Option::is_none")]
    pub fixed: Option<StaticPeers>,

    /// Other `SeiNode` objects of this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelPeers>,
}

/// Machines in EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ec2TagsPeers {
    /// The region to search in.
    #[schemars(length(min = 1, max = 64))]
    pub region: String,

    /// Tags that a machine must carry, all of them.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 50))]
    pub tags: BTreeMap<String, String>,
}

/// A fixed list of peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(rules::STATIC_PEERS)))]
pub struct StaticPeers {
    /// Peers, each as `nodeId@host:port`.
    #[schemars(length(min = 1, max = 256), inner(length(max = 320)))]
    pub addresses: Vec<String>,
}

/// Other nodes of this cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelPeers {
    /// Labels that a `SeiNode` must carry, all of them.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 64))]
    pub selector: BTreeMap<String, String>,

    /// The namespace to search in. Absent: the node's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
}
