//! Form A: the reports of one node as a single condition of an operator resource, whose message is a JSON document.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::text::{DETAIL_LIMIT, KEY_ID_LIMIT, clean};
use crate::text::cut;

/// The condition's type; the node's name follows. It ends in no word that a cluster operator's status is rolled up from.
pub const CONDITION_TYPE_PREFIX: &str = "KMSHealthReporter_";

/// Most bytes of a condition's message, as Kubernetes has it for its own.
pub const MESSAGE_BUDGET: usize = 32768;

/// The type of a node's condition. Its status is always True and its reason `AsExpected`, so that nothing reacts to one pod.
#[must_use]
pub fn condition_type(node: &str) -> String {
    format!("{CONDITION_TYPE_PREFIX}{node}")
}

/// One plugin's report. The fields are written in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionEntry {
    /// Number of the key, as in the name of the plugin's socket.
    #[serde(rename = "keyID")]
    pub key_id: String,

    /// Id of the key in the KMS, if the plugin gave one.
    #[serde(default, rename = "kekID", skip_serializing_if = "Option::is_none")]
    pub kek_id: Option<String>,

    /// How the plugin is.
    pub status: PluginStatus,

    /// When it was looked at.
    #[serde(rename = "lastChecked")]
    pub last_checked: Time,

    /// What the plugin, or the way to it, said, unless it is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How a plugin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginStatus {
    /// It says that it is well, and an API server would believe it.
    Healthy,
    /// It answers, and an API server would not use it.
    Unhealthy,
    /// It gives no answer.
    Error,
}

/// Why a message is not a list of reports.
#[derive(Debug, thiserror::Error)]
#[error("the condition's message is not a list of KMS reports: {0}")]
pub struct ParseError(#[from] serde_json::Error);

/// The message of a node's condition: one minified JSON array, in the given order. It always fits the budget and is always
/// valid JSON: details shrink first, from the longest; then they go; then key ids go. What says which plugin is sick stays.
pub fn message(entries: &[ConditionEntry]) -> Result<String, serde_json::Error> {
    let mut entries = entries.to_vec();
    for entry in &mut entries {
        entry.detail = fit(entry.detail.take(), DETAIL_LIMIT);
        entry.kek_id = fit(entry.kek_id.take(), KEY_ID_LIMIT);
    }
    let mut limit = DETAIL_LIMIT;
    loop {
        let message = serde_json::to_string(&entries)?;
        if message.len() <= MESSAGE_BUDGET {
            return Ok(message);
        }
        limit /= 2;
        if limit >= SHORTEST_DETAIL {
            for entry in &mut entries {
                entry.detail = entry.detail.take().map(|detail| cut(&detail, limit));
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

/// A detail that is cut below this says nothing.
const SHORTEST_DETAIL: usize = 16;

fn fit(text: Option<String>, limit: usize) -> Option<String> {
    text.map(|text| clean(&text, limit)).filter(|text| !text.is_empty())
}

/// Reads the message of a node's condition. Fields that are not known are ignored, and their order does not matter.
pub fn parse(message: &str) -> Result<Vec<ConditionEntry>, ParseError> {
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
    fn the_message_is_minified_in_the_declared_order() {
        let entries = [
            entry("2", Some("kek-b"), PluginStatus::Healthy, None),
            entry("1", None, PluginStatus::Error, Some("dial\nfailed")),
        ];
        assert_eq!(
            message(&entries).unwrap(),
            concat!(
                r#"[{"keyID":"2","kekID":"kek-b","status":"healthy","lastChecked":"2026-05-18T10:00:00Z"},"#,
                r#"{"keyID":"1","status":"error","lastChecked":"2026-05-18T10:00:00Z","detail":"dial failed"}]"#
            )
        );
    }

    #[test]
    fn a_message_is_read_whatever_its_order_and_its_extra_fields() {
        let read = parse(
            r#"[{"future":1,"kekID":"k","keyID":"7","lastChecked":"2026-05-18T10:00:00Z","status":"unhealthy","detail":"err"}]"#,
        );
        assert_eq!(read.unwrap(), [entry("7", Some("k"), PluginStatus::Unhealthy, Some("err"))]);
        for broken in
            ["", "{}", "[{}]", r#"[{"keyID":"1","status":"fine","lastChecked":"2026-05-18T10:00:00Z"}]"#]
        {
            parse(broken).unwrap_err();
        }
    }

    #[test]
    fn any_number_of_long_reports_fits_and_stays_json() {
        // A quotation mark takes two bytes in JSON, an ideogram three.
        for text in ["x".repeat(5000), "\"".repeat(5000), "鍵".repeat(5000), "\u{1}".repeat(5000)] {
            for count in [1, 10, 40, 200] {
                let entries: Vec<_> = (0..count)
                    .map(|n| entry(&n.to_string(), Some(&text), PluginStatus::Error, Some(&text)))
                    .collect();
                let message = message(&entries).unwrap();
                assert!(message.len() <= MESSAGE_BUDGET, "{count} reports take {} bytes", message.len());
                let read = parse(&message).unwrap();
                let keys: Vec<_> = read.iter().map(|entry| entry.key_id.clone()).collect();
                assert_eq!(keys, (0..count).map(|n| n.to_string()).collect::<Vec<_>>());
                assert!(read.iter().all(|entry| entry.status == PluginStatus::Error));
            }
        }
    }

    #[test]
    fn empty_text_is_no_text() {
        let message = message(&[entry("1", Some(""), PluginStatus::Unhealthy, Some(""))]).unwrap();
        assert_eq!(parse(&message).unwrap(), [entry("1", None, PluginStatus::Unhealthy, None)]);
    }
}
