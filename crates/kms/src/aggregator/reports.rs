//! Parses the reports and conditions of an object. An unreadable entry is recorded and does not affect the others.

use std::time::Duration;

use api::kms::{CONDITION_TYPE_PREFIX, HealthReport};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use plan::kms::removal::ReportLocation;
use plan::kms::rollup::{MalformedReport, PluginReport, ReportFormat, Reports};
use serde_json::Value;

/// Parses the reports of an object: those in conditions, and typed ones.
pub(super) fn parse(document: &Value, paths: ReportLocation) -> Reports {
    let mut reports = Reports::default();
    for condition in list(document, "/status/conditions") {
        let name = condition["type"].as_str().and_then(|name| name.strip_prefix(CONDITION_TYPE_PREFIX));
        if let Some(node) = name {
            push_condition(node, condition["message"].as_str().unwrap_or_default(), &mut reports);
        }
    }
    for entry in list(document, &format!("{}/healthReports", paths.holder)) {
        push_typed(entry, &mut reports);
    }
    reports
}

fn list<'a>(document: &'a Value, path: &str) -> &'a [Value] {
    document.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn push_condition(node: &str, message: &str, reports: &mut Reports) {
    match api::kms::parse_message(message) {
        Ok(entries) => reports.valid.extend(entries.into_iter().map(|entry| PluginReport {
            format: ReportFormat::Condition,
            node: node.into(),
            key: entry.key_id,
            status: entry.status,
            checked: entry.last_checked.0,
            remote_key_id: entry.kek_id,
            detail: entry.detail,
            interval: None,
        })),
        Err(error) => reports.malformed.push(MalformedReport {
            format: ReportFormat::Condition,
            node: node.into(),
            text: message.into(),
            why: error.to_string(),
        }),
    }
}

fn push_typed(entry: &Value, reports: &mut Reports) {
    match serde_json::from_value::<HealthReport>(entry.clone()) {
        Ok(report) => reports.valid.push(PluginReport {
            format: ReportFormat::Typed,
            node: report.node_name,
            key: report.key_id,
            status: report.status,
            checked: report.last_checked_time.0,
            remote_key_id: report.remote_key_id,
            detail: report.detail,
            interval: report
                .interval_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map(Duration::from_secs),
        }),
        Err(error) => reports.malformed.push(MalformedReport {
            format: ReportFormat::Typed,
            node: entry["nodeName"].as_str().unwrap_or_default().into(),
            text: entry.to_string(),
            why: format!("malformed report of key {}: {error}", entry["keyID"]),
        }),
    }
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
            reports.valid.iter().map(|one| (one.format, one.node.as_str(), one.key.as_str())).collect();
        assert_eq!(readable, [(ReportFormat::Condition, "b", "1"), (ReportFormat::Typed, "a", "2")]);
        let unreadable: Vec<_> = reports.malformed.iter().map(|one| one.node.as_str()).collect();
        assert_eq!(unreadable, ["c", "d"]);
        let elsewhere = parse(&json!({ "status": status }), report_location(KmsTarget::KubeApiServer));
        assert_eq!(elsewhere.valid.len(), 1, "each kind has its own path");
    }
}
