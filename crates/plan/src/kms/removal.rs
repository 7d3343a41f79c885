//! How entries are taken out of an object: by a JSON patch that first tests that each is the entry that was meant, so that one
//! that was written anew in the meantime stays.

use api::kms::condition_type;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::rollup::Removal;

/// Where entries stand in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The object that holds the list of typed entries, as a JSON pointer.
    pub holder: &'static str,
    /// Whether that object must go with its last entry, because neither it nor its list may be empty.
    pub never_empty: bool,
}

/// The list of typed entries in its holder.
const LIST: &str = "healthReports";

/// The list of conditions.
const CONDITIONS: &str = "/status/conditions";

/// The patch that takes entries out of an object as it was read; nothing when none of them is there any more.
#[must_use]
pub fn patch(object: &Value, places: Places, removals: &[Removal]) -> Option<Vec<Value>> {
    let mut operations = typed(object, places, removals);
    operations.extend(conditions(object, removals));
    (!operations.is_empty()).then_some(operations)
}

fn typed(object: &Value, Places { holder, never_empty }: Places, removals: &[Removal]) -> Vec<Value> {
    let list = object.pointer(&format!("{holder}/{LIST}")).and_then(Value::as_array);
    let list = list.map(Vec::as_slice).unwrap_or_default();
    let meant = |entry: &Value| {
        removals.iter().any(|removal| match removal {
            Removal::Typed { node, key, checked } => {
                let time = entry["lastCheckedTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
                entry["nodeName"] == **node && entry["keyID"] == **key && time == Some(*checked)
            }
            Removal::Condition { .. } => false,
        })
    };
    let gone: Vec<usize> = list.iter().enumerate().filter(|(_, one)| meant(one)).map(|(at, _)| at).collect();
    if gone.is_empty() {
        return Vec::new();
    }
    if never_empty && gone.len() == list.len() {
        // The whole is tested: an entry that has come in the meantime would go with it.
        let others = object.pointer(holder).and_then(Value::as_object).is_some_and(|all| all.len() > 1);
        let path = if others { format!("{holder}/{LIST}") } else { holder.to_owned() };
        let whole = object.pointer(&path).cloned().unwrap_or_default();
        return vec![
            json!({ "op": "test", "path": path, "value": whole }),
            json!({ "op": "remove", "path": path }),
        ];
    }
    // From the end, so that those before keep their places.
    let mut operations = Vec::new();
    for at in gone.into_iter().rev() {
        for field in ["nodeName", "keyID", "lastCheckedTime"] {
            let path = format!("{holder}/{LIST}/{at}/{field}");
            operations.push(json!({ "op": "test", "path": path, "value": list[at][field] }));
        }
        operations.push(json!({ "op": "remove", "path": format!("{holder}/{LIST}/{at}") }));
    }
    operations
}

fn conditions(object: &Value, removals: &[Removal]) -> Vec<Value> {
    let types: Vec<String> = removals
        .iter()
        .filter_map(|removal| match removal {
            Removal::Condition { node } => Some(condition_type(node)),
            Removal::Typed { .. } => None,
        })
        .collect();
    let list = object.pointer(CONDITIONS).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut operations = Vec::new();
    for (at, condition) in list.iter().enumerate().rev() {
        if types.iter().any(|name| condition["type"] == **name) {
            for field in ["type", "message"] {
                let path = format!("{CONDITIONS}/{at}/{field}");
                operations.push(json!({ "op": "test", "path": path, "value": condition[field] }));
            }
            operations.push(json!({ "op": "remove", "path": format!("{CONDITIONS}/{at}") }));
        }
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPED: Places = Places { holder: "/status/encryptionStatus", never_empty: true };

    fn entry(node: &str, key: &str) -> Value {
        json!({ "nodeName": node, "keyID": key, "lastCheckedTime": "2026-05-18T10:00:00Z" })
    }

    fn removal(node: &str, key: &str, time: &str) -> Removal {
        Removal::Typed { node: node.into(), key: key.into(), checked: time.parse().unwrap() }
    }

    const THEN: &str = "2026-05-18T10:00:00Z";

    fn paths(operations: &[Value]) -> Vec<String> {
        let text = |one: &Value| format!("{} {}", one["op"].as_str().unwrap(), one["path"].as_str().unwrap());
        operations.iter().map(text).collect()
    }

    #[test]
    fn each_entry_is_tested_before_it_is_removed_and_the_last_goes_first() {
        let object = json!({ "status": { "encryptionStatus": { "healthReports": [entry("a", "1"), entry("b", "1"), entry("c", "1")] } } });
        let patch = patch(&object, TYPED, &[removal("a", "1", THEN), removal("c", "1", THEN)]).unwrap();
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
    fn the_last_entry_takes_its_list_with_it_and_the_holder_if_nothing_else_is_there() {
        let mut object = json!({ "status": { "encryptionStatus": { "healthReports": [entry("a", "1")] } } });
        let gone = [removal("a", "1", THEN)];
        let operations = patch(&object, TYPED, &gone).unwrap();
        assert_eq!(paths(&operations), ["test /status/encryptionStatus", "remove /status/encryptionStatus"]);
        object["status"]["encryptionStatus"]["preflight"] = json!({ "observedConfigHash": "cuZm_g==" });
        let operations = patch(&object, TYPED, &gone).unwrap();
        assert_eq!(
            paths(&operations),
            ["test /status/encryptionStatus/healthReports", "remove /status/encryptionStatus/healthReports"]
        );
        let ours = Places { holder: "/status", never_empty: false };
        let object = json!({ "status": { "healthReports": [entry("a", "1")] } });
        assert_eq!(
            paths(&patch(&object, ours, &gone).unwrap()).last().unwrap(),
            "remove /status/healthReports/0"
        );
    }

    #[test]
    fn an_entry_that_was_written_anew_is_left_alone() {
        let object = json!({ "status": { "encryptionStatus": { "healthReports": [entry("a", "1")] } } });
        assert_eq!(patch(&object, TYPED, &[removal("a", "1", "2026-05-18T10:00:30Z")]), None);
        assert_eq!(patch(&json!({}), TYPED, &[removal("a", "1", THEN)]), None);
    }

    #[test]
    fn a_condition_is_tested_by_its_type_and_all_that_it_says() {
        let object = json!({ "status": { "conditions": [
            { "type": "Encrypted", "status": "True" },
            { "type": "KMSHealthReporter_a", "message": "[]" },
        ] } });
        let patch = patch(&object, TYPED, &[Removal::Condition { node: "a".into() }]).unwrap();
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
