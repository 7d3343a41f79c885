//! JSON patches that remove reports. Each removal is guarded by `test` operations, so that a report that was updated in the meantime
//! is kept.

use api::kms::condition_type;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::rollup::ReportRemoval;

/// Location of typed reports in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportLocation {
    /// JSON pointer to the object that contains the list.
    pub holder: &'static str,
    /// Whether the object is removed with its last report, because the schema allows neither an empty object nor an empty list.
    pub remove_when_empty: bool,
}

/// Field of the list in its holder.
const LIST: &str = "healthReports";

/// JSON pointer to the conditions.
const CONDITIONS: &str = "/status/conditions";

/// Returns the patch that removes entries from an object, or `None` if none of them exists any more.
#[must_use]
pub fn build_patch(
    object: &Value,
    location: ReportLocation,
    removals: &[ReportRemoval],
) -> Option<Vec<Value>> {
    let mut operations = typed_operations(object, location, removals);
    operations.extend(condition_operations(object, removals));
    (!operations.is_empty()).then_some(operations)
}

fn typed_operations(
    object: &Value,
    ReportLocation { holder, remove_when_empty: never_empty }: ReportLocation,
    removals: &[ReportRemoval],
) -> Vec<Value> {
    let list = object.pointer(&format!("{holder}/{LIST}")).and_then(Value::as_array);
    let list = list.map(Vec::as_slice).unwrap_or_default();
    let is_removed = |entry: &Value| {
        removals.iter().any(|removal| match removal {
            ReportRemoval::Typed { node, key, checked } => {
                let time = entry["lastCheckedTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
                entry["nodeName"] == **node && entry["keyID"] == **key && time == Some(*checked)
            }
            ReportRemoval::Condition { .. } => false,
        })
    };
    let indexes: Vec<usize> =
        list.iter().enumerate().filter(|(_, entry)| is_removed(entry)).map(|(index, _)| index).collect();
    if indexes.is_empty() {
        return Vec::new();
    }
    if never_empty && indexes.len() == list.len() {
        // Test the whole value: otherwise a report added in the meantime would be removed, too.
        let others = object.pointer(holder).and_then(Value::as_object).is_some_and(|all| all.len() > 1);
        let path = if others { format!("{holder}/{LIST}") } else { holder.to_owned() };
        let whole = object.pointer(&path).cloned().unwrap_or_default();
        return vec![
            json!({ "op": "test", "path": path, "value": whole }),
            json!({ "op": "remove", "path": path }),
        ];
    }
    // From the end, so that earlier indexes stay valid.
    let mut operations = Vec::new();
    for index in indexes.into_iter().rev() {
        for field in ["nodeName", "keyID", "lastCheckedTime"] {
            let path = format!("{holder}/{LIST}/{index}/{field}");
            operations.push(json!({ "op": "test", "path": path, "value": list[index][field] }));
        }
        operations.push(json!({ "op": "remove", "path": format!("{holder}/{LIST}/{index}") }));
    }
    operations
}

fn condition_operations(object: &Value, removals: &[ReportRemoval]) -> Vec<Value> {
    let types: Vec<String> = removals
        .iter()
        .filter_map(|removal| match removal {
            ReportRemoval::Condition { node } => Some(condition_type(node)),
            ReportRemoval::Typed { .. } => None,
        })
        .collect();
    let list = object.pointer(CONDITIONS).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut operations = Vec::new();
    for (index, condition) in list.iter().enumerate().rev() {
        if types.iter().any(|name| condition["type"] == **name) {
            for field in ["type", "message"] {
                let path = format!("{CONDITIONS}/{index}/{field}");
                operations.push(json!({ "op": "test", "path": path, "value": condition[field] }));
            }
            operations.push(json!({ "op": "remove", "path": format!("{CONDITIONS}/{index}") }));
        }
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPED: ReportLocation =
        ReportLocation { holder: "/status/encryptionStatus", remove_when_empty: true };

    fn entry(node: &str, key: &str) -> Value {
        json!({ "nodeName": node, "keyID": key, "lastCheckedTime": "2026-05-18T10:00:00Z" })
    }

    fn removal(node: &str, key: &str, time: &str) -> ReportRemoval {
        ReportRemoval::Typed { node: node.into(), key: key.into(), checked: time.parse().unwrap() }
    }

    const CHECKED_AT: &str = "2026-05-18T10:00:00Z";

    fn paths(operations: &[Value]) -> Vec<String> {
        let text = |one: &Value| format!("{} {}", one["op"].as_str().unwrap(), one["path"].as_str().unwrap());
        operations.iter().map(text).collect()
    }

    #[test]
    fn removals_are_guarded_and_ordered_from_the_end() {
        let object = json!({ "status": { "encryptionStatus": { "healthReports": [entry("a", "1"), entry("b", "1"), entry("c", "1")] } } });
        let patch =
            build_patch(&object, TYPED, &[removal("a", "1", CHECKED_AT), removal("c", "1", CHECKED_AT)])
                .unwrap();
        assert_eq!(
            paths(&patch),
            [
                "test /status/encryptionStatus/healthReports/2/nodeName",
                "test /status/encryptionStatus/healthReports/2/keyID",
                "test /status/encryptionStatus/healthReports/2/lastCheckedTime",
                "remove /status/encryptionStatus/healthReports/2",
                "test /status/encryptionStatus/healthReports/0/nodeName",
                "test /status/encryptionStatus/healthReports/0/keyID",
                "test /status/encryptionStatus/healthReports/0/lastCheckedTime",
                "remove /status/encryptionStatus/healthReports/0",
            ]
        );
    }

    #[test]
    fn last_report_removes_list_or_holder() {
        let mut object = json!({ "status": { "encryptionStatus": { "healthReports": [entry("a", "1")] } } });
        let removals = [removal("a", "1", CHECKED_AT)];
        let operations = build_patch(&object, TYPED, &removals).unwrap();
        assert_eq!(paths(&operations), ["test /status/encryptionStatus", "remove /status/encryptionStatus"]);
        object["status"]["encryptionStatus"]["preflight"] = json!({ "observedConfigHash": "cuZm_g==" });
        let operations = build_patch(&object, TYPED, &removals).unwrap();
        assert_eq!(
            paths(&operations),
            ["test /status/encryptionStatus/healthReports", "remove /status/encryptionStatus/healthReports"]
        );
        let kms_health = ReportLocation { holder: "/status", remove_when_empty: false };
        let object = json!({ "status": { "healthReports": [entry("a", "1")] } });
        assert_eq!(
            paths(&build_patch(&object, kms_health, &removals).unwrap()).last().unwrap(),
            "remove /status/healthReports/0"
        );
    }

    #[test]
    fn updated_report_is_kept() {
        let object = json!({ "status": { "encryptionStatus": { "healthReports": [entry("a", "1")] } } });
        assert_eq!(build_patch(&object, TYPED, &[removal("a", "1", "2026-05-18T10:00:30Z")]), None);
        assert_eq!(build_patch(&json!({}), TYPED, &[removal("a", "1", CHECKED_AT)]), None);
    }

    #[test]
    fn condition_removal_tests_type_and_message() {
        let object = json!({ "status": { "conditions": [
            { "type": "Encrypted", "status": "True" },
            { "type": "KMSHealthReporter_a", "message": "[]" },
        ] } });
        let patch = build_patch(&object, TYPED, &[ReportRemoval::Condition { node: "a".into() }]).unwrap();
        assert_eq!(
            paths(&patch),
            [
                "test /status/conditions/1/type",
                "test /status/conditions/1/message",
                "remove /status/conditions/1"
            ]
        );
        assert_eq!(patch[1]["value"], "[]");
    }
}
