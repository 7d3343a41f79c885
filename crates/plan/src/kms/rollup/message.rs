//! Message of the degraded condition: one line with counts and one line per problem. Times in it are stable, because a message that
//! changes with every reconcile would cause a write each time.

use api::condition::{KMSPluginsDegraded, Reason as _};
use api::kms::{DETAIL_LIMIT, KeyRole, MESSAGE_BUDGET, sanitize};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use super::plugin_state::{PluginObservation, PluginState};

/// Maximum number of nodes listed per line.
const MAX_LISTED: usize = 5;

/// Space reserved for the last line with the number of omitted lines.
const LAST_LINE: usize = 32;

/// Formats the message for all plugins.
pub(super) fn format_message(plugins: &[PluginObservation]) -> String {
    let count = |fits: fn(&PluginObservation) -> bool| plugins.iter().filter(|one| fits(one)).count();
    let mut message = format!(
        "{}/{} plugins healthy, {} stale, {} missing",
        count(|one| one.state == PluginState::Healthy && !one.flapping),
        plugins.len(),
        count(|one| one.state == PluginState::Stale),
        count(|one| matches!(one.state, PluginState::NeverReported | PluginState::NotYetObserved)),
    );
    let lines = format_lines(plugins);
    for (index, line) in lines.iter().enumerate() {
        if message.len() + 1 + line.len() + LAST_LINE >= MESSAGE_BUDGET {
            message.push_str(&format!("\nand {} more", lines.len() - index));
            break;
        }
        message.push('\n');
        message.push_str(line);
    }
    message
}

/// Formats one line per problem. Nodes with the same problem share a line.
fn format_lines(plugins: &[PluginObservation]) -> Vec<String> {
    let mut folded: Vec<(Vec<&PluginObservation>, &'static str, String, String)> = Vec::new();
    for plugin in plugins.iter().filter(|one| one.state != PluginState::Healthy || one.flapping) {
        let class = display_state(plugin);
        let (cause, detail) = split_cause(plugin);
        let same = folded.iter_mut().find(|(all, other_class, other_cause, other_detail)| {
            let first = all.first();
            *other_class == class
                && *other_cause == cause
                && *other_detail == detail
                && first.is_some_and(|first| first.key == plugin.key && first.role == plugin.role)
        });
        match same {
            Some((all, ..)) => all.push(plugin),
            None => folded.push((vec![plugin], class, cause, detail)),
        }
    }
    let line = |(all, class, cause, detail): &(Vec<&PluginObservation>, &str, String, String)| {
        let first = all.first()?;
        let since = all.iter().map(|one| one.since).min()?;
        let role = match first.role {
            KeyRole::Write => "write",
            KeyRole::Read => "read",
        };
        let suffix = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        Some(format!(
            "{} keyID={} role={role} {class} since {since} cause={cause}{suffix}",
            format_nodes(all),
            first.key
        ))
    };
    folded.iter().filter_map(line).collect()
}

/// Formats one node name, or the number of nodes and their names.
fn format_nodes(all: &[&PluginObservation]) -> String {
    if let [one] = all {
        return one.node.clone();
    }
    let named: Vec<&str> = all.iter().take(MAX_LISTED).map(|one| one.node.as_str()).collect();
    let more = match all.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} nodes: {}{more}", all.len(), named.join(", "))
}

fn display_state(plugin: &PluginObservation) -> &'static str {
    if plugin.flapping && plugin.state == PluginState::Healthy { "Flapping" } else { plugin.state.as_str() }
}

/// Splits a detail into cause and text. Outrigger's reporters start the detail with the cause.
fn split_cause(plugin: &PluginObservation) -> (String, String) {
    let text = sanitize(plugin.detail.as_deref().unwrap_or_default(), DETAIL_LIMIT);
    let none = String::new();
    match plugin.state {
        PluginState::Healthy => ("PluginFlapping".into(), none),
        PluginState::Unhealthy | PluginState::Error => {
            match text.split_once(": ").filter(|(word, _)| is_cause(word)) {
                Some((word, rest)) => (word.to_owned(), rest.to_owned()),
                None if is_cause(&text) => (text, none),
                None => ("Unspecified".into(), text),
            }
        }
        PluginState::Stale => ("ReporterStale".into(), none),
        PluginState::Malformed => ("ReportMalformed".into(), text),
        PluginState::ClockSkew => ("ReporterClockSkew".into(), none),
        PluginState::NeverReported => ("ReporterMissing".into(), none),
        PluginState::NotYetObserved => ("NotYetObserved".into(), none),
    }
}

/// Reports whether a word looks like a cause, such as `SocketMissing` or `RpcError(Unavailable)`.
fn is_cause(word: &str) -> bool {
    let (name, argument) = match word.strip_suffix(')').and_then(|word| word.split_once('(')) {
        Some((name, argument)) => (name, argument),
        None => (word, "A"),
    };
    let camel = |text: &str| {
        text.len() <= 40
            && text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_alphanumeric())
    };
    camel(name) && camel(argument) && name.chars().any(|c| c.is_ascii_lowercase())
}

/// Plugin state parsed from a stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredState {
    nodes: Vec<String>,
    /// Whether the line covers nodes that it does not name.
    and_more: bool,
    key: String,
    pub(super) state: PluginState,
    pub(super) since: Timestamp,
}

impl StoredState {
    pub(super) fn matches(&self, node: &str, key: &str) -> bool {
        self.key == key && (self.and_more || self.nodes.iter().any(|one| one == node))
    }
}

/// Parses the stored message, from which a restarted process learns since when each plugin has been in its state.
pub(super) fn parse_stored(stored: &[Condition]) -> Vec<StoredState> {
    let condition = stored.iter().find(|one| one.type_ == KMSPluginsDegraded::CONDITION);
    let lines = condition.map(|one| one.message.lines().skip(1)).into_iter().flatten();
    lines.filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<StoredState> {
    let (nodes, rest) = line.split_once(" keyID=")?;
    let mut fields = rest.split(' ');
    let key = fields.next()?.to_owned();
    let (_role, class, _since) = (fields.next()?, fields.next()?, fields.next()?);
    let since = fields.next()?.parse().ok()?;
    let state = PluginState::ALL.into_iter().find(|state| state.as_str() == class)?;
    let names = nodes.split_once(" nodes: ").map_or(nodes, |(_, names)| names);
    let (names, more) = names.rsplit_once(" and ").map_or((names, false), |(names, _)| (names, true));
    Some(StoredState {
        nodes: names.split(", ").map(str::to_owned).collect(),
        and_more: more,
        key,
        state,
        since,
    })
}
