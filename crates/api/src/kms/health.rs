//! `KMSHealth`: typed health reports and their rollup.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{DETAIL_LIMIT, KEY_ID_LIMIT, sanitize};
use crate::schema;

/// Maximum number of reports per object. A report has up to 2.5 KB, and etcd accepts objects of up to 1.5 MB.
pub const MAX_REPORTS: usize = 500;

/// Desired state: the nodes and keys that must report.
#[expect(clippy::duplicated_attributes, reason = "columns may have the same type")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "outrigger.dev",
    version = "v1alpha1",
    kind = "KMSHealth",
    plural = "kmshealths",
    doc = "KMSHealth is the health of the KMS plugins of the cluster's API servers, as reported by each node.",
    category = "sei",
    status = "KMSHealthStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Degraded",
        type_ = "string",
        description = "Whether a plugin is unhealthy",
        json_path = ".status.conditions[?(@.type==\"KMSPluginsDegraded\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        description = "Reason of the KMSPluginsDegraded condition",
        json_path = ".status.conditions[?(@.type==\"KMSPluginsDegraded\")].reason"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        description = "Whether new data can be encrypted",
        json_path = ".status.conditions[?(@.type==\"KMSPluginsAvailable\")].status"
    ),
    printcolumn(
        name = "Key Converged",
        type_ = "string",
        description = "Whether all nodes encrypt with the same remote key",
        json_path = ".status.conditions[?(@.type==\"KMSRemoteKeyConverged\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        description = "Message of the KMSPluginsDegraded condition",
        json_path = ".status.conditions[?(@.type==\"KMSPluginsDegraded\")].message"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KMSHealthSpec {
    /// Names of the nodes whose plugins must report. Defaults to the nodes that have reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub expected_nodes: Vec<String>,

    /// Keys whose plugins must report. Defaults to the keys that were reported; the highest number is the write key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["keyID"])
    )]
    pub expected_keys: Vec<ExpectedKey>,
}

/// A key whose plugin must report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedKey {
    /// Number of the key, as in the name of the plugin's socket. It is not the ID of the key in the KMS.
    #[serde(rename = "keyID")]
    #[schemars(length(min = 1, max = 512))]
    pub key_id: String,

    /// Role of the key: Write if it encrypts new data, Read if it only decrypts existing data.
    pub role: KeyRole,
}

/// What a key is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum KeyRole {
    /// The key encrypts new data.
    Write,
    /// The key only decrypts existing data.
    Read,
}

/// Observed state: the reports and their rollup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KMSHealthStatus {
    /// Most recent generation observed by the aggregator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Conditions derived from the reports. Types and reasons are documented in docs/reference/conditions.md.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// Reports, one per plugin and node, written by the reporter of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = MAX_REPORTS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["nodeName", "keyID"])
    )]
    pub health_reports: Vec<HealthReport>,
}

/// A health report of a plugin. Only fields that a reporter always knows are required: if the report of an unresponsive plugin
/// could not be stored, the object would keep showing it as healthy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    /// Name of the node that the plugin runs on.
    #[schemars(length(min = 1, max = 253))]
    pub node_name: String,

    /// Number of the key, as in the name of the plugin's socket. It is not the ID of the key in the KMS.
    #[serde(rename = "keyID")]
    #[schemars(length(min = 1, max = 512))]
    pub key_id: String,

    /// Health of the plugin: Healthy, Unhealthy or Error.
    pub status: PluginStatus,

    /// Time of the check.
    pub last_checked_time: Time,

    /// ID of the key in the KMS, as returned by the plugin. Unset if it returned none.
    #[serde(default, rename = "remoteKeyID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = KEY_ID_LIMIT))]
    pub remote_key_id: Option<String>,

    /// Error message of the plugin or the connection. Unset if the plugin is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = DETAIL_LIMIT))]
    pub detail: Option<String>,

    /// Seconds between two checks. A report that is several intervals old is stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub interval_seconds: Option<i32>,
}

/// Placeholder for an unknown key ID where one is required. Nodes that report it do not count as using the same key.
pub const UNKNOWN_KEY_ID: &str = "unknown";

impl HealthReport {
    /// Converts the report for resources of `operator.openshift.io`. These require a key ID even if the plugin returned none, and
    /// reject all reports of a node if one lacks it, so the last known ID is used instead. They have no interval.
    #[must_use]
    pub fn for_operator_resource(mut self, last_known_key_id: Option<&str>) -> Self {
        let fit = |text: &str, limit| Some(sanitize(text, limit)).filter(|text| !text.is_empty());
        self.remote_key_id = self
            .remote_key_id
            .as_deref()
            .and_then(|id| fit(id, KEY_ID_LIMIT))
            .or_else(|| last_known_key_id.and_then(|id| fit(id, KEY_ID_LIMIT)))
            .or_else(|| Some(UNKNOWN_KEY_ID.into()));
        self.detail = self.detail.as_deref().and_then(|detail| fit(detail, DETAIL_LIMIT));
        self.interval_seconds = None;
        self
    }
}

/// The health of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum PluginStatus {
    /// The plugin reports that it is healthy, in a response that API servers accept.
    Healthy,
    /// The plugin responds, but API servers would not use it.
    Unhealthy,
    /// The plugin does not respond.
    Error,
}

impl PluginStatus {
    /// Returns the value in typed reports and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Unhealthy => "Unhealthy",
            Self::Error => "Error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_status_name_is_its_serialized_form() {
        for status in [PluginStatus::Healthy, PluginStatus::Unhealthy, PluginStatus::Error] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }

    #[test]
    fn operator_resource_report_always_has_a_key_id() {
        for (reported, last_known, expected) in [
            (Some("now"), Some("before"), "now"),
            (None, Some("before"), "before"),
            (Some(""), Some(""), "unknown"),
            (None, None, "unknown"),
        ] {
            let report = HealthReport {
                node_name: "master-0".into(),
                key_id: "1".into(),
                status: PluginStatus::Error,
                last_checked_time: serde_json::from_value("2026-05-18T10:00:00Z".into()).unwrap(),
                remote_key_id: reported.map(Into::into),
                detail: Some(String::new()),
                interval_seconds: Some(30),
            };
            let sent = report.for_operator_resource(last_known);
            assert_eq!(sent.remote_key_id.as_deref(), Some(expected));
            assert_eq!((sent.detail, sent.interval_seconds), (None, None));
        }
    }
}
