//! Lists what an injection changes in a pod spec.

use serde_json::Value;

/// Returns each container and volume that is added, removed or changed.
pub(super) fn list_changes(before: &Value, after: &Value) -> Vec<String> {
    let mut changes: Vec<String> = ["initContainers", "containers", "volumes"]
        .iter()
        .flat_map(|list| changes_in(list, before, after))
        .collect();
    if changes.is_empty() && before != after {
        changes.push("order of init containers, mounts or volumes changed".into());
    }
    changes
}

fn changes_in(list: &str, before: &Value, after: &Value) -> Vec<String> {
    let items = |pod: &Value| pod[list].as_array().cloned().unwrap_or_default();
    let find = |all: &[Value], name: &Value| all.iter().find(|one| one["name"] == *name).cloned();
    let (before, after) = (items(before), items(after));
    let removed =
        before.iter().filter(|one| find(&after, &one["name"]).is_none()).map(|one| (one, "removed"));
    let others = after.iter().filter_map(|one| match find(&before, &one["name"]) {
        None => Some((one, "added")),
        Some(old) if old != *one => Some((one, "changed")),
        Some(_) => None,
    });
    let describe = |(one, change): (&Value, &str)| {
        format!("{list}/{} {change}", one["name"].as_str().unwrap_or("(unnamed)"))
    };
    removed.chain(others).map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_change_is_listed() {
        let before =
            json!({ "initContainers": [{ "name": "a" }, { "name": "b" }], "volumes": [{ "name": "v" }] });
        assert_eq!(list_changes(&before, &before), Vec::<String>::new());
        let after = json!({ "initContainers": [{ "name": "b", "image": "x" }, { "name": "c" }], "volumes": [{ "name": "v" }] });
        assert_eq!(
            list_changes(&before, &after),
            ["initContainers/a removed", "initContainers/b changed", "initContainers/c added"]
        );
        let reordered =
            json!({ "initContainers": [{ "name": "b" }, { "name": "a" }], "volumes": [{ "name": "v" }] });
        assert_eq!(list_changes(&before, &reordered).len(), 1);
    }
}
