//! Renders the reports of one node in the format of each resource.

use std::time::Duration;

use api::kms::{
    ConditionEntry, DETAIL_LIMIT, HealthReport, HealthStatus, KEY_ID_LIMIT, PluginStatus, clean,
    condition_type, message,
};
use api::names::manager::KMS_REPORTER_PREFIX;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::target::Target;
use super::verdict::Verdict;

/// Format of published reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One condition of an operator resource with a JSON message.
    Condition,
    /// Typed reports in an operator resource.
    Typed,
    /// Typed reports in a KMSHealth resource.
    KmsHealth,
}

impl Form {
    /// Reports whether the format has a field for the maximum time until the next report.
    #[must_use]
    pub const fn tells_interval(self) -> bool {
        matches!(self, Self::KmsHealth)
    }
}

/// Amount of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// All fields.
    Full,
    /// Required fields only, for a server that rejected the full report. An invalid optional field must not suppress a report.
    Smallest,
}

/// Result of one probe of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Key number, as in the socket name.
    pub key_number: String,
    /// Health.
    pub verdict: Verdict,
    /// Last valid key ID, for formats that require one.
    pub last_key_id: Option<String>,
    /// Time at which the probe completed.
    pub checked: Time,
}

/// Target and publisher of reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// Target resource.
    pub target: Target,
    /// Name of the object.
    pub name: String,
    /// Format.
    pub form: Form,
    /// Reported node.
    pub node: String,
    /// Maximum time until the next report.
    pub interval: Duration,
}

/// Last stored reports, to detect changes.
#[derive(Clone, Debug, Default)]
pub struct News {
    stored: Option<Vec<Report>>,
}

impl News {
    /// Reports whether these reports differ from the stored ones. Times and error texts are ignored, because they may change with
    /// every probe.
    #[must_use]
    pub fn is_in(&self, reports: &[Report]) -> bool {
        let Some(stored) = &self.stored else { return true };
        let same = |(one, other): (&Report, &Report)| {
            let (one, other) = (&one.verdict, &other.verdict);
            (one.class, one.cause, &one.key_id) == (other.class, other.cause, &other.key_id)
        };
        stored.len() != reports.len() || !stored.iter().zip(reports).all(same)
    }

    /// Records that these reports were stored.
    pub fn stored(&mut self, reports: &[Report]) {
        self.stored = Some(reports.to_vec());
    }
}

impl Publication {
    /// Renders the status apply. `since` is the time at which the condition of the node was first published. It never changes,
    /// because the condition status never changes.
    pub fn body(&self, reports: &[Report], since: &Time, size: Size) -> Result<Value, serde_json::Error> {
        let status = match self.form {
            Form::Condition => self.render_condition(reports, since, size)?,
            Form::Typed | Form::KmsHealth => self.render_typed(reports, size)?,
        };
        let (version, kind) = self.target.kind();
        Ok(
            json!({ "apiVersion": version, "kind": kind, "metadata": { "name": self.name }, "status": status }),
        )
    }

    fn render_condition(
        &self,
        reports: &[Report],
        since: &Time,
        size: Size,
    ) -> Result<Value, serde_json::Error> {
        let entries: Vec<ConditionEntry> = reports
            .iter()
            .map(|report| ConditionEntry {
                key_id: report.key_number.clone(),
                kek_id: report.verdict.key_id.clone().filter(|_| size == Size::Full),
                status: match report.verdict.class {
                    HealthStatus::Healthy => PluginStatus::Healthy,
                    HealthStatus::Unhealthy => PluginStatus::Unhealthy,
                    HealthStatus::Error => PluginStatus::Error,
                },
                last_checked: report.checked.clone(),
                detail: report.verdict.detail.clone().filter(|_| size == Size::Full),
            })
            .collect();
        Ok(json!({ "conditions": [{
            "type": condition_type(&self.node),
            "status": "True",
            "reason": "AsExpected",
            "message": message(&entries)?,
            "lastTransitionTime": since,
        }]}))
    }

    fn render_typed(&self, reports: &[Report], size: Size) -> Result<Value, serde_json::Error> {
        let reports: Vec<HealthReport> =
            reports.iter().map(|report| self.render_report(report, size)).collect();
        let mut status = json!({ "healthReports": serde_json::to_value(reports)? });
        let holder: Vec<&str> = self.target.report_location().holder.split('/').skip(2).collect();
        for field in holder.into_iter().rev() {
            status = json!({ field: status });
        }
        Ok(status)
    }

    fn render_report(&self, report: &Report, size: Size) -> HealthReport {
        let full = size == Size::Full;
        let typed = HealthReport {
            node_name: self.node.clone(),
            key_id: report.key_number.clone(),
            status: report.verdict.class,
            last_checked_time: report.checked.clone(),
            remote_key_id: report
                .verdict
                .key_id
                .as_deref()
                .filter(|_| full)
                .map(|id| clean(id, KEY_ID_LIMIT)),
            detail: report.verdict.detail.as_deref().filter(|_| full).map(|text| clean(text, DETAIL_LIMIT)),
            interval_seconds: Some(seconds(self.interval)),
        };
        match self.form {
            Form::KmsHealth => typed,
            Form::Condition | Form::Typed => {
                typed.for_operator_resource(report.last_key_id.as_deref().filter(|_| full))
            }
        }
    }

    /// Reads the condition time and key IDs that a previous process of this node stored in the object.
    #[must_use]
    pub fn left_behind(&self, object: &Value) -> LeftBehind {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let own = condition_type(&self.node);
        let condition =
            list(&object["status"]["conditions"]).into_iter().find(|one| one["type"] == own.as_str());
        let since = condition
            .as_ref()
            .and_then(|one| serde_json::from_value::<Time>(one["lastTransitionTime"].clone()).ok());
        let message = condition.as_ref().and_then(|one| one["message"].as_str()).unwrap_or_default();
        let entries = api::kms::parse(message).unwrap_or_default();
        let mut key_ids: Vec<(String, String)> =
            entries.into_iter().filter_map(|entry| Some((entry.key_id, entry.kek_id?))).collect();
        let reports = object.pointer(&format!("{}/healthReports", self.target.report_location().holder));
        for report in reports.map(list).unwrap_or_default() {
            let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
            let id = text("remoteKeyID");
            if text("nodeName") == self.node && !id.is_empty() && id != api::kms::UNKNOWN_KEY_ID {
                key_ids.push((text("keyID"), id));
            }
        }
        LeftBehind { since, key_ids }
    }
}

/// State that a previous process of a node stored in an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeftBehind {
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
pub fn manager(node: &str, instance: Option<&str>) -> String {
    let owner = instance.map_or_else(|| node.to_owned(), |instance| format!("{node}/{instance}"));
    let digest = Sha256::digest(owner.as_bytes());
    digest.iter().fold(KMS_REPORTER_PREFIX.to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use api::kms::Cause;

    use super::*;

    fn at(text: &str) -> Time {
        serde_json::from_value(text.into()).unwrap()
    }

    fn publication(target: Target, form: Form) -> Publication {
        let interval = Duration::from_millis(1500);
        Publication { target, name: "cluster".into(), form, node: "master-0".into(), interval }
    }

    fn report(key: &str, class: HealthStatus, key_id: Option<&str>, last: Option<&str>) -> Report {
        let cause = (class != HealthStatus::Healthy).then_some(Cause::NotOk);
        Report {
            key_number: key.into(),
            verdict: Verdict {
                class,
                cause,
                detail: cause.map(|cause| format!("{cause}: sealed")),
                key_id: key_id.map(Into::into),
            },
            last_key_id: last.map(Into::into),
            checked: at("2026-05-18T10:00:00Z"),
        }
    }

    fn reports() -> [Report; 2] {
        [
            report("2", HealthStatus::Healthy, Some("kek-2"), Some("kek-2")),
            report("1", HealthStatus::Error, None, Some("kek-1")),
        ]
    }

    #[test]
    fn field_manager_matches_upstream_reporter() {
        assert_eq!(
            manager("node-1", None),
            "kms-health-reporter-35971be6e9bb024a895582fe0e42e04848a86da550aaef0fccbfba86f99f617d"
        );
        assert_eq!(
            manager("master-0", None),
            "kms-health-reporter-039d00b17e10d07f52111429fc7d82e2c03bf4e15cc9ea6668760e105ec558ce"
        );
        assert_eq!(manager(&"n".repeat(253), Some("pod")).len(), 84);
        assert_ne!(manager("node-1", Some("a")), manager("node-1", Some("b")));
    }

    #[test]
    fn condition_contains_all_reports_of_node() {
        let body = publication(Target::KubeApiServer, Form::Condition)
            .body(&reports(), &at("2026-05-18T09:00:00Z"), Size::Full)
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
        let body = |target, form, size| {
            publication(target, form).body(&reports(), &at("2026-05-18T09:00:00Z"), size).unwrap()
        };
        let full = body(Target::Authentication, Form::Typed, Size::Full);
        assert_eq!(
            full["status"]["oauthAPIServer"]["encryptionStatus"]["healthReports"],
            json!([
                { "nodeName": "master-0", "keyID": "2", "status": "Healthy", "remoteKeyID": "kek-2",
                  "lastCheckedTime": "2026-05-18T10:00:00Z" },
                { "nodeName": "master-0", "keyID": "1", "status": "Error", "remoteKeyID": "kek-1",
                  "lastCheckedTime": "2026-05-18T10:00:00Z", "detail": "NotOk: sealed" },
            ])
        );
        let smallest = body(Target::KubeApiServer, Form::Typed, Size::Smallest);
        assert_eq!(
            smallest["status"]["encryptionStatus"]["healthReports"][1],
            json!({ "nodeName": "master-0", "keyID": "1", "status": "Error", "remoteKeyID": "unknown",
                    "lastCheckedTime": "2026-05-18T10:00:00Z" })
        );
        let own = body(Target::KmsHealth, Form::KmsHealth, Size::Full);
        assert_eq!(
            own["status"]["healthReports"][1],
            json!({ "nodeName": "master-0", "keyID": "1", "status": "Error", "intervalSeconds": 2,
                    "lastCheckedTime": "2026-05-18T10:00:00Z", "detail": "NotOk: sealed" })
        );
    }

    #[test]
    fn change_detection_ignores_time_and_text() {
        let mut news = News::default();
        let before = reports();
        assert!(news.is_in(&before), "nothing stored yet");
        news.stored(&before);
        let with = |change: &dyn Fn(&mut Report)| {
            let mut now = reports();
            change(&mut now[1]);
            news.is_in(&now)
        };
        assert!(!with(&|_| {}));
        assert!(!with(&|report| report.checked = at("2026-05-18T11:00:00Z")));
        assert!(!with(&|report| report.verdict.detail = Some("NotOk: sealed by 4711".into())));
        assert!(with(&|report| report.verdict.cause = Some(Cause::Timeout)));
        assert!(with(&|report| report.verdict.class = HealthStatus::Unhealthy));
        assert!(with(&|report| report.verdict.key_id = Some("kek-3".into())));
        assert!(news.is_in(&before[..1]));
    }

    #[test]
    fn previous_reports_are_read_back() {
        let since = at("2026-05-18T09:00:00Z");
        let by_condition = publication(Target::KubeApiServer, Form::Condition);
        let object = by_condition.body(&reports(), &since, Size::Full).unwrap();
        let left = by_condition.left_behind(&object);
        assert_eq!(left.since, Some(since.clone()));
        assert_eq!(left.key_ids, [("2".to_owned(), "kek-2".to_owned())]);

        let typed = publication(Target::Authentication, Form::Typed);
        let object = typed.body(&reports(), &since, Size::Full).unwrap();
        assert_eq!(typed.left_behind(&object).key_ids.len(), 2);
        let object = typed.body(&reports(), &since, Size::Smallest).unwrap();
        assert_eq!(typed.left_behind(&object), LeftBehind::default(), "placeholder IDs are ignored");
        assert_eq!(typed.left_behind(&json!({})), LeftBehind::default());
    }
}
