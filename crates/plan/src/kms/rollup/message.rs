//! What people are told of sick plugins: a line with counts, and a line for each that is not good. Times in it stay as long as
//! what they are about stays: a message that differed at every look would make every look a write.

use api::condition::{KMSPluginsDegraded, Reason as _};
use api::kms::{DETAIL_LIMIT, KeyRole, MESSAGE_BUDGET, clean};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use super::subject::{State, Subject};

/// So many nodes of a line are named.
const MOST_NAMED: usize = 5;

/// Room for the last line, which says how many are left out.
const LAST_LINE: usize = 32;

/// The message about all plugins.
pub(super) fn of(subjects: &[Subject]) -> String {
    let count = |fits: fn(&Subject) -> bool| subjects.iter().filter(|one| fits(one)).count();
    let mut message = format!(
        "{}/{} plugins healthy, {} stale, {} missing",
        count(|one| one.state == State::Healthy && !one.flapping),
        subjects.len(),
        count(|one| one.state == State::Stale),
        count(|one| matches!(one.state, State::NeverReported | State::NotYetObserved)),
    );
    let lines = lines(subjects);
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

/// A line for each plugin that is not good; one for all nodes that say the same.
fn lines(subjects: &[Subject]) -> Vec<String> {
    let mut folded: Vec<(Vec<&Subject>, &'static str, String, String)> = Vec::new();
    for subject in subjects.iter().filter(|one| one.state != State::Healthy || one.flapping) {
        let class = class(subject);
        let (cause, detail) = cause(subject);
        let same = folded.iter_mut().find(|(all, of, why, said)| {
            let first = all.first();
            *of == class
                && *why == cause
                && *said == detail
                && first.is_some_and(|first| first.key == subject.key && first.role == subject.role)
        });
        match same {
            Some((all, ..)) => all.push(subject),
            None => folded.push((vec![subject], class, cause, detail)),
        }
    }
    let line = |(all, class, cause, detail): &(Vec<&Subject>, &str, String, String)| {
        let first = all.first()?;
        let since = all.iter().map(|one| one.since).min()?;
        let role = match first.role {
            KeyRole::Write => "write",
            KeyRole::Read => "read",
        };
        let said = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        Some(format!(
            "{} keyID={} role={role} {class} since {since} cause={cause}{said}",
            names(all),
            first.key
        ))
    };
    folded.iter().filter_map(line).collect()
}

/// One node, or how many and which.
fn names(all: &[&Subject]) -> String {
    if let [one] = all {
        return one.node.clone();
    }
    let named: Vec<&str> = all.iter().take(MOST_NAMED).map(|one| one.node.as_str()).collect();
    let more = match all.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} nodes: {}{more}", all.len(), named.join(", "))
}

fn class(subject: &Subject) -> &'static str {
    if subject.flapping && subject.state == State::Healthy { "Flapping" } else { subject.state.as_str() }
}

/// Why, in one word, and what was said. Our reporters begin what they say with the word.
fn cause(subject: &Subject) -> (String, String) {
    let said = clean(subject.detail.as_deref().unwrap_or_default(), DETAIL_LIMIT);
    let none = String::new();
    match subject.state {
        State::Healthy => ("PluginFlapping".into(), none),
        State::Unhealthy | State::Error => match said.split_once(": ").filter(|(word, _)| is_cause(word)) {
            Some((word, rest)) => (word.to_owned(), rest.to_owned()),
            None if is_cause(&said) => (said, none),
            None => ("Unspecified".into(), said),
        },
        State::Stale => ("ReporterStale".into(), none),
        State::Malformed => ("ReportMalformed".into(), said),
        State::ClockSkew => ("ReporterClockSkew".into(), none),
        State::NeverReported => ("ReporterMissing".into(), none),
        State::NotYetObserved => ("NotYetObserved".into(), none),
    }
}

/// A word of a closed list, like `SocketMissing` or `RpcError(Unavailable)`.
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

/// What an earlier message said of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recalled {
    nodes: Vec<String>,
    /// Whether nodes are meant that the line does not name.
    and_more: bool,
    key: String,
    pub(super) state: State,
    pub(super) since: Timestamp,
}

impl Recalled {
    pub(super) fn is_about(&self, node: &str, key: &str) -> bool {
        self.key == key && (self.and_more || self.nodes.iter().any(|one| one == node))
    }
}

/// Reads the message that stands: a process that begins to look knows from it since when things are as they are.
pub(super) fn recall(stored: &[Condition]) -> Vec<Recalled> {
    let condition = stored.iter().find(|one| one.type_ == KMSPluginsDegraded::CONDITION);
    let lines = condition.map(|one| one.message.lines().skip(1)).into_iter().flatten();
    lines.filter_map(recall_line).collect()
}

fn recall_line(line: &str) -> Option<Recalled> {
    let (who, rest) = line.split_once(" keyID=")?;
    let mut words = rest.split(' ');
    let key = words.next()?.to_owned();
    let (_role, class, _since) = (words.next()?, words.next()?, words.next()?);
    let since = words.next()?.parse().ok()?;
    let state = State::ALL.into_iter().find(|state| state.as_str() == class)?;
    let names = who.split_once(" nodes: ").map_or(who, |(_, names)| names);
    let (names, more) = names.rsplit_once(" and ").map_or((names, false), |(names, _)| (names, true));
    Some(Recalled {
        nodes: names.split(", ").map(str::to_owned).collect(),
        and_more: more,
        key,
        state,
        since,
    })
}
