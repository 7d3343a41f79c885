//! `KMSHealthReport`: the reports of one node in an object of its own. A cluster with many API servers has one per node, because
//! writes by many reporters to one object conflict.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::health::HealthReport;
use crate::rule::{Rule, validations};

/// Maximum number of reports of one node.
pub const MAX_NODE_REPORTS: usize = 32;

/// Maximum length of an object's name.
const MAX_NAME_LENGTH: usize = 253;

/// The reports of one node. They are in the spec, so that a single server-side apply creates or updates the object.
#[expect(clippy::duplicated_attributes, reason = "columns may have the same type")]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "outrigger.dev",
    version = "v1alpha1",
    kind = "KMSHealthReport",
    plural = "kmshealthreports",
    doc = "KMSHealthReport is the health of the KMS plugins of one node, as reported by the node. It belongs to a KMSHealth.",
    category = "sei",
    derive = "PartialEq",
    printcolumn(
        name = "KMSHealth",
        type_ = "string",
        description = "KMSHealth that the reports belong to",
        json_path = ".spec.kmsHealth"
    ),
    printcolumn(
        name = "Node",
        type_ = "string",
        description = "Node that reports",
        json_path = ".spec.nodeName"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations(RULES)))]
pub struct KMSHealthReportSpec {
    /// Name of the KMSHealth that the reports belong to. Immutable.
    #[schemars(length(min = 1, max = 253))]
    pub kms_health: String,

    /// Name of the node that reports. Immutable.
    #[schemars(length(min = 1, max = 253))]
    pub node_name: String,

    /// Reports, one per plugin of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = MAX_NODE_REPORTS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["nodeName", "keyID"])
    )]
    pub health_reports: Vec<HealthReport>,
}

const RULES: &[Rule] = &[
    Rule::forbidden(
        "",
        "self.kmsHealth == oldSelf.kmsHealth && self.nodeName == oldSelf.nodeName",
        "kmsHealth and nodeName are immutable: create another object for another node",
    ),
    Rule::forbidden(
        ".healthReports",
        "!has(self.healthReports) || self.healthReports.all(report, report.nodeName == self.nodeName)",
        "healthReports may contain only reports of the node in nodeName",
    ),
];

impl KMSHealthReport {
    /// Returns the name of the object with the reports of a node.
    #[must_use]
    pub fn object_name(kms_health: &str, node: &str) -> String {
        let name = format!("{kms_health}.{node}");
        if name.len() <= MAX_NAME_LENGTH {
            return name;
        }
        let hash: String = Sha256::digest(node.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let kept = MAX_NAME_LENGTH - hash.len() - 1;
        format!("{}.{hash}", kms_health.get(..kept).unwrap_or(kms_health))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_name_fits_and_differs_by_node() {
        assert_eq!(KMSHealthReport::object_name("cluster", "master-0"), "cluster.master-0");
        let (long, other) = ("n".repeat(250), format!("{}m", "n".repeat(249)));
        let name = KMSHealthReport::object_name("cluster", &long);
        assert_eq!(name.len(), "cluster.".len() + 64);
        assert_ne!(name, KMSHealthReport::object_name("cluster", &other));
        assert_eq!(KMSHealthReport::object_name(&"k".repeat(253), &long).len(), MAX_NAME_LENGTH);
    }
}
