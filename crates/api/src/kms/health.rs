//! `KMSHealth`: typed reports (form B) and their rollup.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{DETAIL_LIMIT, KEY_ID_LIMIT, clean};
use crate::schema;

/// Most reports that one object holds. Each may be 2.5 KB long, and etcd takes objects of 1.5 MB.
pub const MAX_REPORTS: usize = 500;

/// Whose reports are expected.
#[expect(clippy::duplicated_attributes, reason = "columns may have the same type")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "outrigger.dev",
    version = "v1alpha1",
    kind = "KMSHealth",
    plural = "kmshealths",
    doc = "Health of the KMS plugins of the cluster's API servers, as each of their nodes reports it.",
    category = "sei",
    status = "KMSHealthStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Degraded",
        type_ = "string",
        description = "Whether a plugin is sick",
        json_path = ".status.conditions[?(@.type==\"KMSPluginsDegraded\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        description = "Why",
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
        description = "Whether all nodes use one key",
        json_path = ".status.conditions[?(@.type==\"KMSRemoteKeyConverged\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        description = "Which plugins are sick",
        json_path = ".status.conditions[?(@.type==\"KMSPluginsDegraded\")].message"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KMSHealthSpec {
    /// Nodes whose plugins must report. Absent: those that have reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub expected_nodes: Vec<String>,

    /// Keys whose plugins must report. Absent: those that were reported, of which the highest number encrypts.
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
    /// Number of the key, as in the name of the plugin's socket. It is not the id of the key in the KMS.
    #[serde(rename = "keyID")]
    #[schemars(length(min = 1, max = 512))]
    pub key_id: String,

    /// Whether new data is encrypted with the key, or only old data read.
    pub role: KeyRole,
}

/// What a key is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum KeyRole {
    /// New data is encrypted with it.
    Write,
    /// Old data is decrypted with it.
    Read,
}

/// What was reported, and what follows from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KMSHealthStatus {
    /// The newest generation of the spec that the aggregator has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What follows from the reports, each with its reason: see docs/reference/conditions.md.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// One report for each plugin of each node, written by the reporter of that node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = MAX_REPORTS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["nodeName", "keyID"])
    )]
    pub health_reports: Vec<HealthReport>,
}

/// One look at one plugin. Only what a reporter always knows is required: the report of a plugin that gives no answer must
/// be storable, or the object would keep saying that all is well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    /// The node that the plugin runs on.
    #[schemars(length(min = 1, max = 253))]
    pub node_name: String,

    /// Number of the key, as in the name of the plugin's socket. It is not the id of the key in the KMS.
    #[serde(rename = "keyID")]
    #[schemars(length(min = 1, max = 512))]
    pub key_id: String,

    /// How the plugin is.
    pub status: HealthStatus,

    /// When it was looked at.
    pub last_checked_time: Time,

    /// Id of the key in the KMS, as the plugin gave it. Absent: it gave none.
    #[serde(default, rename = "remoteKeyID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = KEY_ID_LIMIT))]
    pub remote_key_id: Option<String>,

    /// What the plugin, or the way to it, said. Absent when it is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = DETAIL_LIMIT))]
    pub detail: Option<String>,

    /// Seconds between two looks: a report that is several times older is stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub interval_seconds: Option<i32>,
}

/// What a report says of a key id that is not known, where one is required. It is no key: nodes that say it do not agree.
pub const UNKNOWN_KEY_ID: &str = "unknown";

impl HealthReport {
    /// The report as resources of `operator.openshift.io` take it (form B). They require a key id also of a plugin that gave
    /// none, and refuse the reports of all of a node's plugins for one that lacks it, so the last one that was known stands
    /// in. They know no interval.
    #[must_use]
    pub fn for_operator_resource(mut self, last_known_key_id: Option<&str>) -> Self {
        let fit = |text: &str, limit| Some(clean(text, limit)).filter(|text| !text.is_empty());
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

/// How a plugin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::undescribed)]
pub enum HealthStatus {
    /// It says that it is well, and an API server would believe it.
    Healthy,
    /// It answers, and an API server would not use it.
    Unhealthy,
    /// It gives no answer.
    Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_resource_always_gets_a_key_id_and_never_empty_text() {
        for (given, last_known, expected) in [
            (Some("now"), Some("before"), "now"),
            (None, Some("before"), "before"),
            (Some(""), Some(""), "unknown"),
            (None, None, "unknown"),
        ] {
            let report = HealthReport {
                node_name: "master-0".into(),
                key_id: "1".into(),
                status: HealthStatus::Error,
                last_checked_time: serde_json::from_value("2026-05-18T10:00:00Z".into()).unwrap(),
                remote_key_id: given.map(Into::into),
                detail: Some(String::new()),
                interval_seconds: Some(30),
            };
            let sent = report.for_operator_resource(last_known);
            assert_eq!(sent.remote_key_id.as_deref(), Some(expected));
            assert_eq!((sent.detail, sent.interval_seconds), (None, None));
        }
    }
}
