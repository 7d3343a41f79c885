//! What is observed of a fleet and its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::SeiNode;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The observed state of a fleet.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The nodes with the label of the fleet, those it owns, and those with the name of one of its ordinals.
    pub nodes: Vec<Arc<SeiNode>>,
    /// The revisions that the fleet owns.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// The Service that balances requests.
    pub internal_service: Option<Arc<Service>>,
    /// The Service behind the routes of a published fleet.
    pub external_service: Option<Arc<Service>>,
    /// The validators of the fleet's chain in this cluster, those of other fleets included.
    pub validators: Vec<ChainValidator>,
    /// Voting power of the whole chain, as a node of it last reported.
    pub total_power: Option<i64>,
    /// Messages of writes that were refused in this reconcile, by the name of the object.
    pub write_failures: BTreeMap<String, String>,
    /// Since when this operator is active. Deadlines do not pass while none is.
    pub active_since: Option<Time>,
}

/// A validator of the fleet's chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainValidator {
    /// Name of the node in its namespace.
    pub name: String,
    /// Namespace of the node.
    pub namespace: String,
    /// Voting power, if it is known.
    pub power: Option<i64>,
    /// Whether the node is ready and follows its chain.
    pub is_available: bool,
}
