//! The reports of one node, as each resource takes them: three renderings of one thing.

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

/// How reports are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As one condition of an operator resource, whose message is JSON.
    Condition,
    /// As typed reports of an operator resource.
    Typed,
    /// As typed reports of our own kind.
    KmsHealth,
}

impl Form {
    /// Whether a report tells how long it may take until the next one.
    #[must_use]
    pub const fn tells_interval(self) -> bool {
        matches!(self, Self::KmsHealth)
    }
}

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Everything that is known.
    Full,
    /// Only what says which plugin is how: for a server that has refused the rest. A bad field must not silence a node.
    Smallest,
}

/// One look at one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Number of the key, as in the name of the plugin's socket.
    pub key_number: String,
    /// How it is.
    pub verdict: Verdict,
    /// The last good key id, for those who require one.
    pub last_key_id: Option<String>,
    /// When the look ended.
    pub checked: Time,
}

/// Who publishes where.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// On what.
    pub target: Target,
    /// The object's name.
    pub name: String,
    /// How.
    pub form: Form,
    /// The node that is spoken for.
    pub node: String,
    /// How long at most it takes until the next report.
    pub interval: Duration,
}

/// What was stored last, to tell news from what says the same again.
#[derive(Clone, Debug, Default)]
pub struct News {
    stored: Option<Vec<Report>>,
}

impl News {
    /// Whether these reports say anything that those that are stored do not. Their time does not count, nor does the text of a
    /// complaint, which may be another each time.
    #[must_use]
    pub fn is_in(&self, reports: &[Report]) -> bool {
        let Some(stored) = &self.stored else { return true };
        let same = |(one, other): (&Report, &Report)| {
            let (one, other) = (&one.verdict, &other.verdict);
            (one.class, one.cause, &one.key_id) == (other.class, other.cause, &other.key_id)
        };
        stored.len() != reports.len() || !stored.iter().zip(reports).all(same)
    }

    /// These are stored now.
    pub fn stored(&mut self, reports: &[Report]) {
        self.stored = Some(reports.to_vec());
    }
}

impl Publication {
    /// The object to apply to the status. `since` is when the node's condition was first published: it never changes, since
    /// the condition's status never does.
    pub fn body(&self, reports: &[Report], since: &Time, size: Size) -> Result<Value, serde_json::Error> {
        let status = match self.form {
            Form::Condition => self.condition(reports, since, size)?,
            Form::Typed | Form::KmsHealth => self.typed(reports, size)?,
        };
        let (version, kind) = self.target.kind();
        Ok(
            json!({ "apiVersion": version, "kind": kind, "metadata": { "name": self.name }, "status": status }),
        )
    }

    fn condition(&self, reports: &[Report], since: &Time, size: Size) -> Result<Value, serde_json::Error> {
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

    fn typed(&self, reports: &[Report], size: Size) -> Result<Value, serde_json::Error> {
        let reports: Vec<HealthReport> = reports.iter().map(|report| self.report(report, size)).collect();
        let mut place = json!({ "healthReports": serde_json::to_value(reports)? });
        for field in self.target.typed_place().iter().skip(1).rev() {
            place = json!({ *field: place });
        }
        Ok(place)
    }

    fn report(&self, report: &Report, size: Size) -> HealthReport {
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

    /// What an earlier process of this node has left in the object: since when its condition stands, and the key ids.
    #[must_use]
    pub fn left_behind(&self, object: &Value) -> LeftBehind {
        let list = |place: &Value| place.as_array().cloned().unwrap_or_default();
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
        let place = self.target.typed_place().iter().fold(object, |value, field| &value[*field]);
        for report in list(&place["healthReports"]) {
            let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
            let id = text("remoteKeyID");
            if text("nodeName") == self.node && !id.is_empty() && id != api::kms::UNKNOWN_KEY_ID {
                key_ids.push((text("keyID"), id));
            }
        }
        LeftBehind { since, key_ids }
    }
}

/// What an earlier process of a node has left in an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeftBehind {
    /// Since when its condition stands.
    pub since: Option<Time>,
    /// Key ids by the number of their key.
    pub key_ids: Vec<(String, String)>,
}

/// Whole seconds, at least one, as the field takes them.
fn seconds(interval: Duration) -> i32 {
    i32::try_from(interval.as_millis().div_ceil(1000)).unwrap_or(i32::MAX).clamp(1, 86400)
}

/// The field manager of a node's reporter. Names of nodes may be longer than those of managers, so that it is a hash. It is the
/// same for every process of a node: a plugin that is gone leaves with the next apply. An instance keeps two reporters that
/// share a node apart, at the price of that.
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
    fn managers_are_those_of_the_reporter_before() {
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
    fn a_condition_holds_all_reports_of_a_node() {
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
    fn typed_reports_always_have_a_key_id_and_stand_where_they_belong() {
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
    fn news_are_another_class_cause_or_key_and_no_other_time_or_text() {
        let mut news = News::default();
        let before = reports();
        assert!(news.is_in(&before), "nothing is stored yet");
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
    fn what_a_process_before_left_is_found() {
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
        assert_eq!(typed.left_behind(&object), LeftBehind::default(), "a placeholder is no id");
        assert_eq!(typed.left_behind(&json!({})), LeftBehind::default());
    }
}
