//! Renders the reports of one node in the format of each resource.

use std::time::Duration;

use api::kms::{
    ConditionEntry, DETAIL_LIMIT, HealthReport, KEY_ID_LIMIT, KmsTarget, condition_type, encode_message,
    sanitize,
};
use api::names::manager::KMS_REPORTER_PREFIX;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::plugin_health::PluginHealth;
use super::target::report_location;

/// Format of published reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishFormat {
    /// One condition of an operator resource with a JSON message.
    Condition,
    /// Typed reports in an operator resource.
    Typed,
    /// Typed reports in a KMSHealth resource.
    KmsHealth,
}

impl PublishFormat {
    /// Reports whether the format has a field for the maximum time until the next report.
    #[must_use]
    pub const fn has_interval_field(self) -> bool {
        matches!(self, Self::KmsHealth)
    }
}

/// Amount of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailLevel {
    /// All fields.
    Full,
    /// Required fields only, for a server that rejected the full report. An invalid optional field must not suppress a report.
    Minimal,
}

/// Result of one probe of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeReport {
    /// Key number, as in the socket name.
    pub key_number: String,
    /// Health.
    pub health: PluginHealth,
    /// Last valid key ID, for formats that require one.
    pub last_key_id: Option<String>,
    /// Time at which the probe completed.
    pub checked: Time,
}

/// Target and publisher of reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// Target resource.
    pub target: KmsTarget,
    /// Name of the object.
    pub name: String,
    /// Format.
    pub format: PublishFormat,
    /// Reported node.
    pub node: String,
    /// Maximum time until the next report.
    pub interval: Duration,
}

/// Last stored reports, to detect changes.
#[derive(Clone, Debug, Default)]
pub struct ChangeDetector {
    stored: Option<Vec<ProbeReport>>,
}

impl ChangeDetector {
    /// Reports whether these reports differ from the stored ones. Times and error texts are ignored, because they may change with
    /// every probe.
    #[must_use]
    pub fn has_changed(&self, reports: &[ProbeReport]) -> bool {
        let Some(stored) = &self.stored else { return true };
        let same = |(one, other): (&ProbeReport, &ProbeReport)| {
            let (one, other) = (&one.health, &other.health);
            (one.status, one.cause, &one.key_id) == (other.status, other.cause, &other.key_id)
        };
        stored.len() != reports.len() || !stored.iter().zip(reports).all(same)
    }

    /// Records that these reports were stored.
    pub fn record_stored(&mut self, reports: &[ProbeReport]) {
        self.stored = Some(reports.to_vec());
    }
}

impl Publication {
    /// Renders the status apply. `since` is the time at which the condition of the node was first published. It never changes,
    /// because the condition status never changes.
    pub fn render(
        &self,
        reports: &[ProbeReport],
        since: &Time,
        size: DetailLevel,
    ) -> Result<Value, serde_json::Error> {
        let status = match self.format {
            PublishFormat::Condition => self.render_condition(reports, since, size)?,
            PublishFormat::Typed | PublishFormat::KmsHealth => self.render_typed(reports, size)?,
        };
        let (version, kind) = self.target.api_version_and_kind();
        Ok(
            json!({ "apiVersion": version, "kind": kind, "metadata": { "name": self.name }, "status": status }),
        )
    }

    fn render_condition(
        &self,
        reports: &[ProbeReport],
        since: &Time,
        size: DetailLevel,
    ) -> Result<Value, serde_json::Error> {
        let entries: Vec<ConditionEntry> = reports
            .iter()
            .map(|report| ConditionEntry {
                key_id: report.key_number.clone(),
                kek_id: report.health.key_id.clone().filter(|_| size == DetailLevel::Full),
                status: report.health.status,
                last_checked: report.checked.clone(),
                detail: report.health.detail.clone().filter(|_| size == DetailLevel::Full),
            })
            .collect();
        Ok(json!({ "conditions": [{
            "type": condition_type(&self.node),
            "status": "True",
            "reason": "AsExpected",
            "message": encode_message(&entries)?,
            "lastTransitionTime": since,
        }]}))
    }

    fn render_typed(&self, reports: &[ProbeReport], size: DetailLevel) -> Result<Value, serde_json::Error> {
        let reports: Vec<HealthReport> =
            reports.iter().map(|report| self.render_report(report, size)).collect();
        let mut status = json!({ "healthReports": serde_json::to_value(reports)? });
        let holder: Vec<&str> = report_location(self.target).holder.split('/').skip(2).collect();
        for field in holder.into_iter().rev() {
            status = json!({ field: status });
        }
        Ok(status)
    }

    fn render_report(&self, report: &ProbeReport, size: DetailLevel) -> HealthReport {
        let full = size == DetailLevel::Full;
        let typed = HealthReport {
            node_name: self.node.clone(),
            key_id: report.key_number.clone(),
            status: report.health.status,
            last_checked_time: report.checked.clone(),
            remote_key_id: report
                .health
                .key_id
                .as_deref()
                .filter(|_| full)
                .map(|id| sanitize(id, KEY_ID_LIMIT)),
            detail: report.health.detail.as_deref().filter(|_| full).map(|text| sanitize(text, DETAIL_LIMIT)),
            interval_seconds: Some(seconds(self.interval)),
        };
        match self.format {
            PublishFormat::KmsHealth => typed,
            PublishFormat::Condition | PublishFormat::Typed => {
                typed.for_operator_resource(report.last_key_id.as_deref().filter(|_| full))
            }
        }
    }

    /// Reads the condition time and key IDs that a previous process of this node stored in the object.
    #[must_use]
    pub fn read_previous(&self, object: &Value) -> PreviousReports {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let own = condition_type(&self.node);
        let condition =
            list(&object["status"]["conditions"]).into_iter().find(|one| one["type"] == own.as_str());
        let since = condition
            .as_ref()
            .and_then(|one| serde_json::from_value::<Time>(one["lastTransitionTime"].clone()).ok());
        let message = condition.as_ref().and_then(|one| one["message"].as_str()).unwrap_or_default();
        let entries = api::kms::parse_message(message).unwrap_or_default();
        let mut key_ids: Vec<(String, String)> =
            entries.into_iter().filter_map(|entry| Some((entry.key_id, entry.kek_id?))).collect();
        let reports = object.pointer(&format!("{}/healthReports", report_location(self.target).holder));
        for report in reports.map(list).unwrap_or_default() {
            let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
            let id = text("remoteKeyID");
            if text("nodeName") == self.node && !id.is_empty() && id != api::kms::UNKNOWN_KEY_ID {
                key_ids.push((text("keyID"), id));
            }
        }
        PreviousReports { since, key_ids }
    }
}

/// State that a previous process of a node stored in an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreviousReports {
    /// Transition time of its condition.
    pub since: Option<Time>,
    /// Key IDs by key number.
    pub key_ids: Vec<(String, String)>,
}

/// Returns the interval in seconds, rounded up to the valid range of the field.
fn seconds(interval: Duration) -> i32 {
    i32::try_from(interval.as_millis().div_ceil(1000)).unwrap_or(i32::MAX).clamp(1, 86400)
}

/// Returns the field manager of a node's reporter. It is a hash, because node names may exceed the length limit of field
/// managers. It is the same for every process on a node, so that the next apply removes the report of a deleted plugin. `instance`
/// separates two reporters on the same node, at the cost of that cleanup.
#[must_use]
pub fn field_manager(node: &str, instance: Option<&str>) -> String {
    let owner = instance.map_or_else(|| node.to_owned(), |instance| format!("{node}/{instance}"));
    let digest = Sha256::digest(owner.as_bytes());
    digest.iter().fold(KMS_REPORTER_PREFIX.to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use api::kms::{Cause, PluginStatus};

    use super::*;

    fn at(text: &str) -> Time {
        serde_json::from_value(text.into()).unwrap()
    }

    fn publication(target: KmsTarget, format: PublishFormat) -> Publication {
        let interval = Duration::from_millis(1500);
        Publication { target, name: "cluster".into(), format, node: "master-0".into(), interval }
    }

    fn report(key: &str, class: PluginStatus, key_id: Option<&str>, last: Option<&str>) -> ProbeReport {
        let cause = (class != PluginStatus::Healthy).then_some(Cause::NotOk);
        ProbeReport {
            key_number: key.into(),
            health: PluginHealth {
                status: class,
                cause,
                detail: cause.map(|cause| format!("{cause}: sealed")),
                key_id: key_id.map(Into::into),
            },
            last_key_id: last.map(Into::into),
            checked: at("2026-05-18T10:00:00Z"),
        }
    }

    fn reports() -> [ProbeReport; 2] {
        [
            report("2", PluginStatus::Healthy, Some("kek-2"), Some("kek-2")),
            report("1", PluginStatus::Error, None, Some("kek-1")),
        ]
    }

    #[test]
    fn field_manager_matches_upstream_reporter() {
        assert_eq!(
            field_manager("node-1", None),
            "kms-health-reporter-35971be6e9bb024a895582fe0e42e04848a86da550aaef0fccbfba86f99f617d"
        );
        assert_eq!(
            field_manager("master-0", None),
            "kms-health-reporter-039d00b17e10d07f52111429fc7d82e2c03bf4e15cc9ea6668760e105ec558ce"
        );
        assert_eq!(field_manager(&"n".repeat(253), Some("pod")).len(), 84);
        assert_ne!(field_manager("node-1", Some("a")), field_manager("node-1", Some("b")));
    }

    #[test]
    fn condition_contains_all_reports_of_node() {
        let body = publication(KmsTarget::KubeApiServer, PublishFormat::Condition)
            .render(&reports(), &at("2026-05-18T09:00:00Z"), DetailLevel::Full)
            .unwrap();
        assert_eq!(
            body,
            json!({
                "apiVersion": "operator.openshift.io/v1", "kind": "KubeAPIServer", "metadata": { "name": "cluster" },
                "status": { "conditions": [{
                    "type": "KMSHealthReporter_master-0", "status": "True", "reason": "AsExpected",
                    "lastTransitionTime": "2026-05-18T09:00:00Z",
                    "message": concat!(
                        r#"[{"keyID":"2","kekID":"kek-2","status":"healthy","lastChecked":"2026-05-18T10:00:00Z"},"#,
                        r#"{"keyID":"1","status":"error","lastChecked":"2026-05-18T10:00:00Z","detail":"NotOk: sealed"}]"#
                    ),
                }]}
            })
        );
    }

    #[test]
    fn typed_reports_have_key_id_and_location() {
        let body = |target, format, size| {
            publication(target, format).render(&reports(), &at("2026-05-18T09:00:00Z"), size).unwrap()
        };
        let full = body(KmsTarget::Authentication, PublishFormat::Typed, DetailLevel::Full);
        assert_eq!(
            full["status"]["oauthAPIServer"]["encryptionStatus"]["healthReports"],
            json!([
                { "nodeName": "master-0", "keyID": "2", "status": "Healthy", "remoteKeyID": "kek-2",
                  "lastCheckedTime": "2026-05-18T10:00:00Z" },
                { "nodeName": "master-0", "keyID": "1", "status": "Error", "remoteKeyID": "kek-1",
                  "lastCheckedTime": "2026-05-18T10:00:00Z", "detail": "NotOk: sealed" },
            ])
        );
        let smallest = body(KmsTarget::KubeApiServer, PublishFormat::Typed, DetailLevel::Minimal);
        assert_eq!(
            smallest["status"]["encryptionStatus"]["healthReports"][1],
            json!({ "nodeName": "master-0", "keyID": "1", "status": "Error", "remoteKeyID": "unknown",
                    "lastCheckedTime": "2026-05-18T10:00:00Z" })
        );
        let own = body(KmsTarget::KmsHealth, PublishFormat::KmsHealth, DetailLevel::Full);
        assert_eq!(
            own["status"]["healthReports"][1],
            json!({ "nodeName": "master-0", "keyID": "1", "status": "Error", "intervalSeconds": 2,
                    "lastCheckedTime": "2026-05-18T10:00:00Z", "detail": "NotOk: sealed" })
        );
    }

    #[test]
    fn change_detection_ignores_time_and_text() {
        let mut news = ChangeDetector::default();
        let before = reports();
        assert!(news.has_changed(&before), "nothing stored yet");
        news.record_stored(&before);
        let with = |change: &dyn Fn(&mut ProbeReport)| {
            let mut now = reports();
            change(&mut now[1]);
            news.has_changed(&now)
        };
        assert!(!with(&|_| {}));
        assert!(!with(&|report| report.checked = at("2026-05-18T11:00:00Z")));
        assert!(!with(&|report| report.health.detail = Some("NotOk: sealed by 4711".into())));
        assert!(with(&|report| report.health.cause = Some(Cause::Timeout)));
        assert!(with(&|report| report.health.status = PluginStatus::Unhealthy));
        assert!(with(&|report| report.health.key_id = Some("kek-3".into())));
        assert!(news.has_changed(&before[..1]));
    }

    #[test]
    fn previous_reports_are_read_back() {
        let since = at("2026-05-18T09:00:00Z");
        let by_condition = publication(KmsTarget::KubeApiServer, PublishFormat::Condition);
        let object = by_condition.render(&reports(), &since, DetailLevel::Full).unwrap();
        let left = by_condition.read_previous(&object);
        assert_eq!(left.since, Some(since.clone()));
        assert_eq!(left.key_ids, [("2".to_owned(), "kek-2".to_owned())]);

        let typed = publication(KmsTarget::Authentication, PublishFormat::Typed);
        let object = typed.render(&reports(), &since, DetailLevel::Full).unwrap();
        assert_eq!(typed.read_previous(&object).key_ids.len(), 2);
        let object = typed.render(&reports(), &since, DetailLevel::Minimal).unwrap();
        assert_eq!(typed.read_previous(&object), PreviousReports::default(), "placeholder IDs are ignored");
        assert_eq!(typed.read_previous(&json!({})), PreviousReports::default());
    }
}
