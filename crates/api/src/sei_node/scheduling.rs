//! Where the pod of a node may run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Toleration, TopologySpreadConstraint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rules;
use crate::rule::validations;
use crate::schema;

/// Where the pod of a node may run, in addition to the defaults of the platform.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Scheduling {
    /// Labels that the Kubernetes node of the pod must have, in addition to its node pool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub node_selector: BTreeMap<String, String>,

    /// Taints that the pod tolerates, in addition to that of its node pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub tolerations: Vec<Toleration>,

    /// Affinity of the pod, as in a Pod. The requirement of the node pool is added to each of its node selector terms, and
    /// validators keep their preference for different Kubernetes nodes. Unknown fields are reported in the condition SpecApplied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::affinity")]
    pub affinity: Option<Value>,

    /// How the pod is spread over failure domains, together with the pods that each constraint selects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::topology_spread_constraints")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,

    /// Name of the PriorityClass of the pod. It must exist, or the pod is not created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = validations(rules::SUBDOMAIN)))]
    pub priority_class_name: Option<String>,
}
