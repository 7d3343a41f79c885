//! IDs of keys in reports: placeholders for unknown ones, and key numbers with an instance.

use k8s_openapi::jiff::Timestamp;

/// Prefix of [`placeholder`].
const PLACEHOLDER_PREFIX: &str = "outrigger-unavailable:";

/// Placeholder that older reporters write.
pub const UNKNOWN_KEY_ID: &str = "unknown";

/// Separates the number of a key from the instance of its reporter. It occurs in neither of them.
const INSTANCE_SEPARATOR: char = '@';

/// Returns a value for a required key ID of a plugin that returned none. It is unique for each node, key and probe: readers that
/// compare only key IDs must not mistake failing plugins for plugins with the same key.
#[must_use]
pub fn placeholder(node: &str, key: &str, probed: Timestamp) -> String {
    format!("{PLACEHOLDER_PREFIX}{node}:{key}:{probed:.9}")
}

/// Returns whether a key ID stands for an unknown one. Nodes that report it do not count as using the same key.
#[must_use]
pub fn is_placeholder(id: &str) -> bool {
    id == UNKNOWN_KEY_ID || id.starts_with(PLACEHOLDER_PREFIX)
}

/// Splits a `keyID` into the number of the key and the instance of the reporter, if it has one.
#[must_use]
pub fn split_instance(key: &str) -> (&str, Option<&str>) {
    match key.rsplit_once(INSTANCE_SEPARATOR) {
        Some((number, instance)) => (number, Some(instance)),
        None => (key, None),
    }
}

/// Returns the `keyID` of a key for a reporter with an instance.
#[must_use]
pub fn with_instance(key: &str, instance: Option<&str>) -> String {
    match instance {
        Some(instance) => format!("{key}{INSTANCE_SEPARATOR}{instance}"),
        None => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::KEY_ID_LIMIT;
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn placeholder_differs_by_node_key_and_probe() {
        let (first, later) = (at("2026-05-18T10:00:00Z"), at("2026-05-18T10:00:00.000000001Z"));
        let all = [
            placeholder("master-0", "1", first),
            placeholder("master-1", "1", first),
            placeholder("master-0", "2", first),
            placeholder("master-0", "1", later),
        ];
        assert_eq!(all[0], "outrigger-unavailable:master-0:1:2026-05-18T10:00:00.000000000Z");
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
        assert!(all.iter().all(|id| is_placeholder(id)));
        assert!(is_placeholder("unknown") && !is_placeholder("arn:aws:kms:key/1") && !is_placeholder(""));
    }

    #[test]
    fn placeholder_fits_for_names_of_maximum_length() {
        let longest = placeholder(&"n".repeat(253), &"k".repeat(512), at("2026-05-18T10:00:00.123456789Z"));
        assert!(longest.len() <= KEY_ID_LIMIT, "{}", longest.len());
    }

    #[test]
    fn instance_round_trips() {
        for (key, instance, text) in
            [("1", None, "1"), ("1", Some("b"), "1@b"), ("vault.eu", Some("b"), "vault.eu@b")]
        {
            assert_eq!(with_instance(key, instance), text);
            assert_eq!(split_instance(text), (key, instance));
        }
    }
}
