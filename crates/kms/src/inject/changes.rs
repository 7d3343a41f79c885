//! What an injection changes in a pod, in words.

use serde_json::Value;

/// Each named thing that comes, goes or changes.
pub(super) fn between(before: &Value, after: &Value) -> Vec<String> {
    let mut changes: Vec<String> = ["initContainers", "containers", "volumes"]
        .iter()
        .flat_map(|list| of_list(list, before, after))
        .collect();
    if changes.is_empty() && before != after {
        changes.push("the order of init containers, mounts or volumes differs".into());
    }
    changes
}

fn of_list(list: &str, before: &Value, after: &Value) -> Vec<String> {
    let items = |pod: &Value| pod[list].as_array().cloned().unwrap_or_default();
    let find = |all: &[Value], name: &Value| all.iter().find(|one| one["name"] == *name).cloned();
    let (before, after) = (items(before), items(after));
    let gone = before.iter().filter(|one| find(&after, &one["name"]).is_none()).map(|one| (one, "goes"));
    let come = after.iter().filter_map(|one| match find(&before, &one["name"]) {
        None => Some((one, "comes")),
        Some(old) if old != *one => Some((one, "changes")),
        Some(_) => None,
    });
    let said = |(one, how): (&Value, &str)| {
        format!("{} of {list} {how}", one["name"].as_str().unwrap_or("one without a name"))
    };
    gone.chain(come).map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_change_is_named() {
        let before =
            json!({ "initContainers": [{ "name": "a" }, { "name": "b" }], "volumes": [{ "name": "v" }] });
        assert_eq!(between(&before, &before), Vec::<String>::new());
        let after = json!({ "initContainers": [{ "name": "b", "image": "x" }, { "name": "c" }], "volumes": [{ "name": "v" }] });
        assert_eq!(
            between(&before, &after),
            ["a of initContainers goes", "b of initContainers changes", "c of initContainers comes"]
        );
        let turned =
            json!({ "initContainers": [{ "name": "b" }, { "name": "a" }], "volumes": [{ "name": "v" }] });
        assert_eq!(between(&before, &turned).len(), 1);
    }
}
