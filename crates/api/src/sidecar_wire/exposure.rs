//! What a sidecar shows to whoever reaches it, without a token.
//!
//! The proxy asks nobody for a token at [`UNAUTHENTICATED`](super::path::UNAUTHENTICATED): kubelets and scrapers have none. Who
//! reaches the proxy at all is up to the node's network policy. What is shown there is numbers, and labels from this list,
//! none of which a caller or a Secret can put text into.

use super::{TaskState, TaskType};

/// What the value of a label may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// A kind of task.
    TaskType,
    /// How a task stands.
    TaskState,
    /// One of these words.
    Words(&'static [&'static str]),
    /// The name of a chain, or of a pod: both are public, and chosen by who makes the node.
    Name,
    /// A number, or `+Inf`.
    Number,
}

/// The labels that metrics of a sidecar may have, each with its values and with what it tells.
pub const LABELS: [(&str, Values, &str); 10] = [
    ("type", Values::TaskType, "Which kind of task; what it was given and what it returned are never shown"),
    ("status", Values::TaskState, "How the task ended"),
    (
        "reason",
        Values::Words(&["missing_header", "duplicate_header", "empty_header"]),
        "Why a call was turned away; never who called",
    ),
    (
        "outcome",
        Values::Words(&["success", "failure", "skipped", "error", "sent", "dropped"]),
        "How an upload, a broadcast or an event ended; never why, which may name buckets and accounts",
    ),
    ("divergence_layer", Values::Words(&["0", "1", "2", "3"]), "Where a replayed block differs"),
    ("chain", Values::Name, "The chain"),
    ("chain_id", Values::Name, "The chain"),
    ("pod_name", Values::Name, "The pod"),
    ("le", Values::Number, "The upper bound of a bucket"),
    ("version", Values::Name, "The version of the sidecar"),
];

/// The longest name that is shown.
const LONGEST_NAME: usize = 253;

/// What in a text of metrics must not be shown without a token, one sentence each.
#[must_use]
pub fn violations(metrics: &str) -> Vec<String> {
    let samples = metrics.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    samples.flat_map(of_sample).collect()
}

fn of_sample(line: &str) -> Vec<String> {
    let unreadable = || vec![format!("a line that is no sample: {line}")];
    let Some((name, rest)) = line.split_once(['{', ' ']) else { return unreadable() };
    let mut found = Vec::new();
    if line[name.len()..].starts_with('{') {
        let Some((labels, value)) = labels(rest) else { return unreadable() };
        found.extend(labels.iter().filter_map(|(label, value)| of_label(name, label, value)));
        if !is_number(value.trim()) {
            return unreadable();
        }
    } else if !is_number(rest.trim()) {
        return unreadable();
    }
    found
}

/// The labels that a text begins with, and what follows them.
fn labels(mut text: &str) -> Option<(Vec<(&str, String)>, &str)> {
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

fn of_label(metric: &str, label: &str, value: &str) -> Option<String> {
    let Some((_, values, _)) = LABELS.iter().find(|(name, ..)| *name == label) else {
        return Some(format!("{metric} has the label {label}, which nobody has looked at"));
    };
    let fits = match values {
        Values::TaskType => TaskType::ALL.iter().any(|kind| kind.as_str() == value),
        Values::TaskState => [TaskState::Running, TaskState::Completed, TaskState::Failed]
            .iter()
            .any(|state| serde_json::to_value(state).is_ok_and(|state| state == value)),
        Values::Words(words) => words.contains(&value),
        Values::Name => is_name(value),
        Values::Number => is_number(value),
    };
    (!fits).then(|| format!("{metric} has {label}={value:?}"))
}

/// Letters, digits, and what joins them: no path, no address, no sentence.
fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME && text.chars().all(|one| one.is_ascii_alphanumeric() || "-_.+".contains(one))
}

fn is_number(text: &str) -> bool {
    let first = text.split(' ').next().unwrap_or_default();
    first == "+Inf" || first.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_sidecar_may_show_is_let_through() {
        let metrics = r#"# HELP seictl_task_submissions_total Tasks that were begun.
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
    fn what_a_caller_or_a_secret_could_put_there_is_found() {
        for (line, said) in [
            (r#"a_total{user="system:serviceaccount:ops:alice"} 1"#, "a_total has the label user"),
            (r#"a_total{type="x\",status=\"completed"} 1"#, "a_total has type="),
            (r#"a_total{type="mark-ready",status="denied: key of bob"} 1"#, "a_total has status="),
            (r#"a_total{outcome="AccessDenied: s3://bucket/key"} 1"#, "a_total has outcome="),
            (r#"a_total{chain="https://keys.example/secret"} 1"#, "a_total has chain="),
            (r#"a_total{chain="a" 1"#, "a line that is no sample"),
            ("a_total one", "a line that is no sample"),
            ("free text", "a line that is no sample"),
        ] {
            let found = violations(line);
            assert!(matches!(&found[..], [one] if one.starts_with(said)), "{line}: {found:?}");
        }
    }
}
