//! Parses the reports and conditions of an object. An unreadable entry is recorded and does not affect the others.

use std::time::Duration;

use api::kms::{CONDITION_TYPE_PREFIX, HealthReport, key_id};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use plan::kms::removal::ReportLocation;
use plan::kms::rollup::{MalformedReport, PluginReport, ReportFormat, Reports};
use serde_json::Value;

/// Separates the node from the instance of the reporter in the type of its condition. It does not occur in names of nodes.
const INSTANCE_SEPARATOR: char = '_';

/// Parses the reports of an object: those in conditions, and typed ones.
pub(super) fn parse(document: &Value, paths: ReportLocation) -> Reports {
    let mut reports = Reports::default();
    for condition in list(document, "/status/conditions") {
        let name = condition["type"].as_str().and_then(|name| name.strip_prefix(CONDITION_TYPE_PREFIX));
        if let Some(writer) = name {
            let (node, instance) = match writer.split_once(INSTANCE_SEPARATOR) {
                Some((node, instance)) => (node, Some(instance)),
                None => (writer, None),
            };
            let message = condition["message"].as_str().unwrap_or_default();
            push_condition(node, instance, message, &mut reports);
        }
    }
    for entry in list(document, &format!("{}/healthReports", paths.holder)) {
        push_typed(entry, &ReportFormat::Typed, &mut reports);
    }
    reports
}

/// Adds the reports in an object of a node.
pub(super) fn parse_object(name: &str, spec: &Value, reports: &mut Reports) {
    for entry in list(spec, "/healthReports") {
        push_typed(entry, &ReportFormat::Object(name.to_owned()), reports);
    }
}

fn list<'a>(document: &'a Value, path: &str) -> &'a [Value] {
    document.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn push_condition(node: &str, instance: Option<&str>, message: &str, reports: &mut Reports) {
    match api::kms::parse_message(message) {
        Ok(entries) => reports.valid.extend(entries.into_iter().map(|entry| PluginReport {
            format: ReportFormat::Condition,
            node: node.into(),
            key: key_id::with_instance(&entry.key_id, instance),
            status: entry.status,
            checked: entry.last_checked.0,
            remote_key_id: entry.kek_id,
            detail: entry.detail,
            interval: seconds(entry.interval_seconds),
            role: entry.role,
        })),
        Err(error) => reports.malformed.push(MalformedReport {
            format: ReportFormat::Condition,
            node: node.into(),
            instance: instance.map(Into::into),
            text: message.into(),
            why: error.to_string(),
        }),
    }
}

fn push_typed(entry: &Value, format: &ReportFormat, reports: &mut Reports) {
    match serde_json::from_value::<HealthReport>(entry.clone()) {
        Ok(report) => reports.valid.push(PluginReport {
            format: format.clone(),
            node: report.node_name,
            key: report.key_id,
            status: report.status,
            checked: report.last_checked_time.0,
            remote_key_id: report.remote_key_id,
            detail: report.detail,
            interval: seconds(report.interval_seconds),
            role: report.role,
        }),
        Err(error) => reports.malformed.push(MalformedReport {
            format: format.clone(),
            node: entry["nodeName"].as_str().unwrap_or_default().into(),
            instance: entry["keyID"].as_str().and_then(|key| key_id::split_instance(key).1).map(Into::into),
            text: entry.to_string(),
            why: format!("malformed report of key {}: {error}", entry["keyID"]),
        }),
    }
}

/// Returns the interval of a report, unless it is invalid.
fn seconds(interval: Option<i32>) -> Option<Duration> {
    interval
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
}

/// Parses all conditions of an object. Fields that metav1.Condition requires may be missing in operator resources.
pub(super) fn parse_conditions(document: &Value) -> Vec<Condition> {
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    list(document, "/status/conditions")
        .iter()
        .map(|one| Condition {
            type_: text(one, "type"),
            status: text(one, "status"),
            reason: text(one, "reason"),
            message: text(one, "message"),
            observed_generation: one["observedGeneration"].as_i64(),
            last_transition_time: Time(
                text(one, "lastTransitionTime").parse().unwrap_or(Timestamp::UNIX_EPOCH),
            ),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use api::kms::KmsTarget;
    use plan::kms::target::report_location;
    use serde_json::json;

    use super::*;

    #[test]
    fn unreadable_reports_do_not_affect_others() {
        let typed = json!({ "nodeName": "a", "keyID": "2", "status": "Error", "lastCheckedTime": "2026-05-18T10:00:00Z", "remoteKeyID": "k" });
        let broken = json!({ "nodeName": "d", "keyID": "2", "status": "Fine" });
        let message = r#"[{"keyID":"1","status":"healthy","lastChecked":"2026-05-18T10:00:00Z"}]"#;
        let conditions = json!([
            { "type": "Encrypted", "status": "True" },
            { "type": "KMSHealthReporter_b", "status": "True", "message": message },
            { "type": "KMSHealthReporter_c", "status": "True", "message": "[{" },
        ]);
        let status = json!({ "conditions": conditions, "oauthAPIServer": { "encryptionStatus": { "healthReports": [typed, broken] } } });
        let reports = parse(&json!({ "status": status }), report_location(KmsTarget::Authentication));
        let readable: Vec<_> =
            reports.valid.iter().map(|one| (&one.format, one.node.as_str(), one.key.as_str())).collect();
        assert_eq!(readable, [(&ReportFormat::Condition, "b", "1"), (&ReportFormat::Typed, "a", "2")]);
        let unreadable: Vec<_> = reports.malformed.iter().map(|one| one.node.as_str()).collect();
        assert_eq!(unreadable, ["c", "d"]);
        let elsewhere = parse(&json!({ "status": status }), report_location(KmsTarget::KubeApiServer));
        assert_eq!(elsewhere.valid.len(), 1, "each kind has its own path");
    }

    #[test]
    fn instance_is_part_of_the_key_in_every_form() {
        let message = r#"[{"keyID":"1","status":"healthy","lastChecked":"2026-05-18T10:00:00Z","role":"Write","intervalSeconds":5}]"#;
        let typed = json!({ "nodeName": "a", "keyID": "1@blue", "status": "Healthy", "lastCheckedTime": "2026-05-18T10:00:00Z", "intervalSeconds": 7 });
        let status = json!({
            "conditions": [{ "type": "KMSHealthReporter_a_blue", "status": "True", "message": message }],
            "healthReports": [typed],
        });
        let mut reports = parse(&json!({ "status": status }), report_location(KmsTarget::KmsHealth));
        parse_object(
            "cluster.a",
            &json!({ "healthReports": [typed, { "nodeName": "a", "keyID": "2@blue" }] }),
            &mut reports,
        );
        let found: Vec<_> = reports
            .valid
            .iter()
            .map(|one| (one.key.as_str(), one.instance(), one.interval.unwrap().as_secs()))
            .collect();
        assert_eq!(
            found,
            [("1@blue", Some("blue"), 5), ("1@blue", Some("blue"), 7), ("1@blue", Some("blue"), 7)]
        );
        assert_eq!(reports.valid[0].role, Some(api::kms::KeyRole::Write));
        let formats: Vec<_> = reports.valid.iter().map(|one| one.format.clone()).collect();
        assert_eq!(
            formats,
            [ReportFormat::Condition, ReportFormat::Typed, ReportFormat::Object("cluster.a".into())]
        );
        assert_eq!(reports.malformed[0].instance.as_deref(), Some("blue"));
    }
}
