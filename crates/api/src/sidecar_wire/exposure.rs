//! What a sidecar exposes to unauthenticated clients.
//!
//! The proxy requires no token at the paths in [`UNAUTHENTICATED`](super::path::UNAUTHENTICATED), because kubelets and scrapers
//! have none; the node's NetworkPolicy limits who can connect. These paths expose numbers, and the labels in this list. Neither
//! callers nor Secrets can put text into them.

use super::{TaskState, TaskType};

/// The allowed values of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// A task type.
    TaskType,
    /// A task state.
    TaskState,
    /// One of these values.
    Words(&'static [&'static str]),
    /// The name of a chain or a pod, or a version. These are public and not chosen by callers.
    Name,
    /// A number, or `+Inf`.
    Number,
}

/// The labels that metrics of a sidecar may have, with their allowed values and a description.
pub const LABELS: [(&str, Values, &str); 10] = [
    ("type", Values::TaskType, "Task type; parameters and results of tasks are never exposed"),
    ("status", Values::TaskState, "Task state"),
    (
        "reason",
        Values::Words(&["missing_header", "duplicate_header", "empty_header"]),
        "Why a request was rejected; the caller is never exposed",
    ),
    (
        "outcome",
        Values::Words(&["success", "failure", "skipped", "error", "sent", "dropped"]),
        "Outcome of an upload, a broadcast or an event; error messages, which may contain bucket or account names, are never exposed",
    ),
    ("divergence_layer", Values::Words(&["0", "1", "2", "3"]), "Layer in which a replayed block diverges"),
    ("chain", Values::Name, "Chain ID"),
    ("chain_id", Values::Name, "Chain ID"),
    ("pod_name", Values::Name, "Name of the pod"),
    ("le", Values::Number, "Upper bound of a histogram bucket"),
    ("version", Values::Name, "Version of the sidecar"),
];

/// Maximum length of an exposed name.
const MAX_NAME_LEN: usize = 253;

/// Returns one message for everything in a text of metrics that must not be exposed.
#[must_use]
pub fn violations(metrics: &str) -> Vec<String> {
    let samples = metrics.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    samples.flat_map(check_sample).collect()
}

fn check_sample(line: &str) -> Vec<String> {
    let malformed = || vec![format!("malformed sample: {line}")];
    let Some((name, rest)) = line.split_once(['{', ' ']) else { return malformed() };
    let mut found = Vec::new();
    if line[name.len()..].starts_with('{') {
        let Some((labels, value)) = parse_labels(rest) else { return malformed() };
        found.extend(labels.iter().filter_map(|(label, value)| check_label(name, label, value)));
        if !is_number(value.trim()) {
            return malformed();
        }
    } else if !is_number(rest.trim()) {
        return malformed();
    }
    found
}

/// Parses the labels at the start of `text`. Returns them with the rest.
fn parse_labels(mut text: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut found = Vec::new();
    loop {
        if let Some(after) = text.strip_prefix('}') {
            return Some((found, after));
        }
        let (label, after) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next()? {
                (index, '"') => break index,
                (_, '\\') => value.push(chars.next()?.1),
                (_, plain) => value.push(plain),
            }
        };
        found.push((label, value));
        let after = &after[end + 1..];
        text = after.strip_prefix(',').unwrap_or(after);
    }
}

fn check_label(metric: &str, label: &str, value: &str) -> Option<String> {
    let Some((_, values, _)) = LABELS.iter().find(|(name, ..)| *name == label) else {
        return Some(format!("{metric} has the unknown label {label}"));
    };
    let is_allowed = match values {
        Values::TaskType => TaskType::ALL.iter().any(|kind| kind.as_str() == value),
        Values::TaskState => [TaskState::Running, TaskState::Completed, TaskState::Failed]
            .iter()
            .any(|state| serde_json::to_value(state).is_ok_and(|state| state == value)),
        Values::Words(words) => words.contains(&value),
        Values::Name => is_name(value),
        Values::Number => is_number(value),
    };
    (!is_allowed).then(|| format!("{metric} has {label}={value:?}"))
}

/// Allows letters, digits and `-_.+`, which excludes paths, URLs and sentences.
fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME_LEN && text.chars().all(|one| one.is_ascii_alphanumeric() || "-_.+".contains(one))
}

fn is_number(text: &str) -> bool {
    let first = text.split(' ').next().unwrap_or_default();
    first == "+Inf" || first.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_metrics_have_no_violations() {
        let metrics = r#"# HELP seictl_task_submissions_total Submitted tasks.
# TYPE seictl_task_submissions_total counter
seictl_task_submissions_total{type="snapshot-restore"} 3
seictl_task_execution_duration_seconds_bucket{type="mark-ready",status="completed",le="+Inf"} 1
seictl_sidecar_authn_rejections_total{reason="missing_header"} 12 1700000000000
seictl_snapshot_upload_last_uploaded_height{chain="arctic-1"} 1.5e+06
process_resident_memory_bytes 1.2e7
"#;
        assert_eq!(violations(metrics), Vec::<String>::new());
    }

    #[test]
    fn text_of_callers_and_secrets_is_detected() {
        for (line, message) in [
            (r#"a_total{user="system:serviceaccount:ops:alice"} 1"#, "a_total has the unknown label user"),
            (r#"a_total{type="x\",status=\"completed"} 1"#, "a_total has type="),
            (r#"a_total{type="mark-ready",status="denied: key of bob"} 1"#, "a_total has status="),
            (r#"a_total{outcome="AccessDenied: s3://bucket/key"} 1"#, "a_total has outcome="),
            (r#"a_total{chain="https://keys.example/secret"} 1"#, "a_total has chain="),
            (r#"a_total{chain="a" 1"#, "malformed sample"),
            ("a_total one", "malformed sample"),
            ("free text", "malformed sample"),
        ] {
            let found = violations(line);
            assert!(matches!(&found[..], [one] if one.starts_with(message)), "{line}: {found:?}");
        }
    }
}
