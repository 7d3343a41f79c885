//! The reports of a node as a single condition of an operator resource. The message of the condition is a JSON document.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::health::PluginStatus;
use super::text::{DETAIL_LIMIT, KEY_ID_LIMIT, sanitize};
use crate::text::truncate;

/// Prefix of the condition type; the node's name follows. It has no suffix that cluster operators roll up into their status.
pub const CONDITION_TYPE_PREFIX: &str = "KMSHealthReporter_";

/// Maximum length of a condition's message in bytes, the limit of Kubernetes conditions.
pub const MESSAGE_BUDGET: usize = 32768;

/// Returns the type of a node's condition. Its status is always True and its reason `AsExpected`, so that nothing reacts to a
/// single pod.
#[must_use]
pub fn condition_type(node: &str) -> String {
    format!("{CONDITION_TYPE_PREFIX}{node}")
}

/// The report of a plugin. The order of the fields is the order in the JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionEntry {
    /// Number of the key, as in the name of the plugin's socket.
    #[serde(rename = "keyID")]
    pub key_id: String,

    /// ID of the key in the KMS, if the plugin returned one.
    #[serde(default, rename = "kekID", skip_serializing_if = "Option::is_none")]
    pub kek_id: Option<String>,

    /// Health of the plugin.
    #[serde(with = "LowercaseStatus")]
    pub status: PluginStatus,

    /// Time of the check.
    #[serde(rename = "lastChecked")]
    pub last_checked: Time,

    /// Error message of the plugin or the connection. Unset if the plugin is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The serialized form of [`PluginStatus`] in conditions. Typed reports capitalize it.
#[derive(Serialize, Deserialize)]
#[serde(remote = "PluginStatus", rename_all = "lowercase")]
enum LowercaseStatus {
    Healthy,
    Unhealthy,
    Error,
}

/// A message that is not a list of reports.
#[derive(Debug, thiserror::Error)]
#[error("invalid KMS reports in condition message: {0}")]
pub struct ParseError(#[from] serde_json::Error);

/// Encodes the message of a node's condition as a minified JSON array. The result always fits [`MESSAGE_BUDGET`]: details are
/// truncated first, then dropped, then key IDs are dropped. Key numbers and statuses are always kept.
pub fn encode_message(entries: &[ConditionEntry]) -> Result<String, serde_json::Error> {
    let mut entries = entries.to_vec();
    for entry in &mut entries {
        entry.detail = sanitize_optional(entry.detail.take(), DETAIL_LIMIT);
        entry.kek_id = sanitize_optional(entry.kek_id.take(), KEY_ID_LIMIT);
    }
    let mut limit = DETAIL_LIMIT;
    loop {
        let message = serde_json::to_string(&entries)?;
        if message.len() <= MESSAGE_BUDGET {
            return Ok(message);
        }
        limit /= 2;
        if limit >= MIN_DETAIL_LEN {
            for entry in &mut entries {
                entry.detail = entry.detail.take().map(|detail| truncate(&detail, limit));
            }
        } else if entries.iter().any(|entry| entry.detail.is_some()) {
            entries.iter_mut().for_each(|entry| entry.detail = None);
        } else if entries.iter().any(|entry| entry.kek_id.is_some()) {
            entries.iter_mut().for_each(|entry| entry.kek_id = None);
        } else {
            return Ok(message);
        }
    }
}

/// A detail that is shorter than this is useless and dropped instead.
const MIN_DETAIL_LEN: usize = 16;

fn sanitize_optional(text: Option<String>, limit: usize) -> Option<String> {
    text.map(|text| sanitize(&text, limit)).filter(|text| !text.is_empty())
}

/// Parses the message of a node's condition. Unknown fields are ignored.
pub fn parse_message(message: &str) -> Result<Vec<ConditionEntry>, ParseError> {
    Ok(serde_json::from_str(message)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        serde_json::from_value(text.into()).unwrap()
    }

    fn entry(key: &str, kek: Option<&str>, status: PluginStatus, detail: Option<&str>) -> ConditionEntry {
        ConditionEntry {
            key_id: key.into(),
            kek_id: kek.map(Into::into),
            status,
            last_checked: at("2026-05-18T10:00:00Z"),
            detail: detail.map(Into::into),
        }
    }

    #[test]
    fn message_is_minified_in_field_order() {
        let entries = [
            entry("2", Some("kek-b"), PluginStatus::Healthy, None),
            entry("1", None, PluginStatus::Error, Some("dial\nfailed")),
        ];
        assert_eq!(
            encode_message(&entries).unwrap(),
            concat!(
                r#"[{"keyID":"2","kekID":"kek-b","status":"healthy","lastChecked":"2026-05-18T10:00:00Z"},"#,
                r#"{"keyID":"1","status":"error","lastChecked":"2026-05-18T10:00:00Z","detail":"dial failed"}]"#
            )
        );
    }

    #[test]
    fn parse_accepts_any_field_order_and_unknown_fields() {
        let read = parse_message(
            r#"[{"future":1,"kekID":"k","keyID":"7","lastChecked":"2026-05-18T10:00:00Z","status":"unhealthy","detail":"err"}]"#,
        );
        assert_eq!(read.unwrap(), [entry("7", Some("k"), PluginStatus::Unhealthy, Some("err"))]);
        for broken in
            ["", "{}", "[{}]", r#"[{"keyID":"1","status":"fine","lastChecked":"2026-05-18T10:00:00Z"}]"#]
        {
            parse_message(broken).unwrap_err();
        }
    }

    #[test]
    fn message_always_fits_and_is_valid_json() {
        // A quotation mark takes two bytes in JSON, an ideogram three.
        for text in ["x".repeat(5000), "\"".repeat(5000), "鍵".repeat(5000), "\u{1}".repeat(5000)] {
            for count in [1, 10, 40, 200] {
                let entries: Vec<_> = (0..count)
                    .map(|n| entry(&n.to_string(), Some(&text), PluginStatus::Error, Some(&text)))
                    .collect();
                let message = encode_message(&entries).unwrap();
                assert!(message.len() <= MESSAGE_BUDGET, "{count} reports take {} bytes", message.len());
                let read = parse_message(&message).unwrap();
                let keys: Vec<_> = read.iter().map(|entry| entry.key_id.clone()).collect();
                assert_eq!(keys, (0..count).map(|n| n.to_string()).collect::<Vec<_>>());
                assert!(read.iter().all(|entry| entry.status == PluginStatus::Error));
            }
        }
    }

    #[test]
    fn empty_text_is_omitted() {
        let message = encode_message(&[entry("1", Some(""), PluginStatus::Unhealthy, Some(""))]).unwrap();
        assert_eq!(parse_message(&message).unwrap(), [entry("1", None, PluginStatus::Unhealthy, None)]);
    }
}
