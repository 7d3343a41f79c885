//! How an operator's conditions reach its ClusterOperator, as library-go's status syncer does it: for clusters that have none.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// A condition of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorCondition {
    /// Its type.
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// When that last changed.
    pub changed: Timestamp,
    /// Why, in one word.
    pub reason: String,
    /// In words for people.
    pub message: String,
}

/// What a ClusterOperator has a condition for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The condition's type; conditions of the operator that end with it are its parts.
    pub name: &'static str,
    /// Its good value.
    pub good: bool,
    /// Whether what is bad counts only after a while.
    pub slow: bool,
}

/// All of them.
pub const SLOTS: [Slot; 5] = [
    Slot { name: "Degraded", good: false, slow: true },
    Slot { name: "Progressing", good: false, slow: false },
    Slot { name: "Available", good: true, slow: false },
    Slot { name: "Upgradeable", good: true, slow: false },
    Slot { name: "EvaluationConditionsDetected", good: false, slow: false },
];

/// How long conditions may be bad before they count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inertia {
    /// Of most.
    pub usual: Duration,
    /// Of those whose type ends with one of these.
    pub special: Vec<(&'static str, Duration)>,
}

impl Default for Inertia {
    fn default() -> Self {
        Self { usual: Duration::from_secs(120), special: Vec::new() }
    }
}

impl Inertia {
    fn of(&self, type_: &str) -> Duration {
        let special = self.special.iter().find(|(suffix, _)| type_.ends_with(suffix));
        special.map_or(self.usual, |(_, time)| *time)
    }
}

/// A slot as the operator's conditions give it, and when that may change by itself.
#[must_use]
pub fn union(
    slot: Slot,
    conditions: &[OperatorCondition],
    inertia: &Inertia,
    now: Timestamp,
) -> (OperatorCondition, Option<Timestamp>) {
    let mut parts: Vec<&OperatorCondition> =
        conditions.iter().filter(|one| one.type_.ends_with(slot.name)).collect();
    parts.sort_by(|a, b| a.type_.cmp(&b.type_));
    let word = |holds: bool| if holds { "True" } else { "False" };
    let made = |status: &str, changed, reason: String, message| OperatorCondition {
        type_: slot.name.into(),
        status: status.into(),
        changed,
        reason,
        message,
    };
    if parts.is_empty() {
        return (made("Unknown", now, "NoData".into(), String::new()), None);
    }
    let bad: Vec<&OperatorCondition> =
        parts.iter().filter(|one| one.status != word(slot.good)).copied().collect();
    let counts_from = |one: &OperatorCondition| {
        let wait = if slot.slow { inertia.of(&one.type_) } else { Duration::ZERO };
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
        one.changed.saturating_add(wait).unwrap_or(Timestamp::MAX)
    };
    let old = |one: &&&OperatorCondition| !slot.slow || counts_from(one) < now;
    let young = bad.iter().filter(|one| !old(one)).map(|one| counts_from(one)).min();
    let latest = |of: &[&OperatorCondition]| of.iter().map(|one| one.changed).max().unwrap_or(now);
    if !bad.iter().any(|one| old(&one)) {
        let said = lines(&parts);
        let message = if said.is_empty() { "All is well".to_owned() } else { said };
        return (made(word(slot.good), latest(&parts), "AsExpected".into(), message), young);
    }
    let opposite = word(!slot.good);
    let status = if bad.iter().any(|one| one.status == opposite) { opposite } else { "Unknown" };
    (made(status, latest(&bad), reasons(slot, &bad), lines(&bad)), young)
}

/// A slot of an operator that nobody manages.
#[must_use]
pub fn unmanaged(slot: Slot, now: Timestamp) -> OperatorCondition {
    let message = "the operator is in an unmanaged state, so that its status is not known".into();
    let (type_, status, reason) = (slot.name.into(), "Unknown".into(), "Unmanaged".into());
    OperatorCondition { type_, status, changed: now, reason, message }
}

/// What each says, line by line, by type; the same line of one condition once.
fn lines(conditions: &[&OperatorCondition]) -> String {
    let mut all = Vec::new();
    for condition in conditions.iter().filter(|one| !one.message.is_empty()) {
        let mut seen = BTreeSet::new();
        for line in condition.message.lines().filter(|line| seen.insert(*line)) {
            all.push(format!("{}: {line}", condition.type_));
        }
    }
    all.join("\n")
}

fn reasons(slot: Slot, bad: &[&OperatorCondition]) -> String {
    let reason = |one: &&OperatorCondition| {
        let prefix = one.type_.strip_suffix(slot.name).unwrap_or_default();
        if prefix.is_empty() { one.reason.clone() } else { format!("{prefix}_{}", one.reason) }
    };
    let mut reasons: Vec<String> = bad.iter().map(reason).collect();
    reasons.sort();
    reasons.join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn condition(type_: &str, status: &str, changed: i64, message: &str) -> OperatorCondition {
        OperatorCondition {
            type_: type_.into(),
            status: status.into(),
            changed: at(changed),
            reason: format!("Why{changed}"),
            message: message.into(),
        }
    }

    fn slot(name: &str) -> Slot {
        SLOTS.into_iter().find(|slot| slot.name == name).unwrap()
    }

    fn seen(name: &str, conditions: &[OperatorCondition], now: i64) -> (String, String, String) {
        let (made, _) = union(slot(name), conditions, &Inertia::default(), at(now));
        (made.status, made.reason, made.message)
    }

    fn said(status: &str, reason: &str, message: &str) -> (String, String, String) {
        (status.into(), reason.into(), message.into())
    }

    /// T-G13.
    #[test]
    fn without_a_condition_nothing_is_known() {
        let other = [condition("KMSHealthReporter_degraded", "True", 0, "x")];
        assert_eq!(seen("Degraded", &other, 500), said("Unknown", "NoData", ""));
    }

    /// T-G13.
    #[test]
    fn all_good_is_as_expected_with_what_was_said_or_all_is_well() {
        let quiet = [condition("ADegraded", "False", 0, "")];
        assert_eq!(seen("Degraded", &quiet, 500), said("False", "AsExpected", "All is well"));
        let told = [condition("BDegraded", "False", 0, "b"), condition("ADegraded", "False", 0, "a\na\nc")];
        let all = "ADegraded: a\nADegraded: c\nBDegraded: b";
        assert_eq!(seen("Degraded", &told, 500), said("False", "AsExpected", all));
        assert_eq!(seen("Available", &[condition("KMSPluginsAvailable", "True", 0, "")], 0).0, "True");
    }

    /// T-G13: a condition that is bad counts after two minutes, and a list tells of the young ones too.
    #[test]
    fn what_is_bad_counts_after_its_inertia_and_then_all_that_is_bad_is_told() {
        let young = [condition("KMSPluginsDegraded", "True", 100, "sick")];
        assert_eq!(seen("Degraded", &young, 219).0, "False");
        assert_eq!(
            seen("Degraded", &young, 221),
            said("True", "KMSPlugins_Why100", "KMSPluginsDegraded: sick")
        );
        let (_, again) = union(slot("Degraded"), &young, &Inertia::default(), at(150));
        assert_eq!(again, Some(at(220)));
        let both =
            [condition("ZDegraded", "True", 200, "z"), condition("KMSPluginsDegraded", "Unknown", 0, "k")];
        let (made, again) = union(slot("Degraded"), &both, &Inertia::default(), at(250));
        assert_eq!((made.status.as_str(), made.reason.as_str()), ("True", "KMSPlugins_Why0::Z_Why200"));
        assert_eq!((made.message.as_str(), made.changed), ("KMSPluginsDegraded: k\nZDegraded: z", at(200)));
        assert_eq!(again, Some(at(320)));
    }

    /// T-G13: a dead reporter alone makes the slot unknown, after the inertia.
    #[test]
    fn unknown_alone_is_unknown() {
        let unknown =
            [condition("KMSPluginsDegraded", "Unknown", 0, "k"), condition("ADegraded", "False", 0, "a")];
        assert_eq!(seen("Degraded", &unknown, 100).0, "False");
        assert_eq!(
            seen("Degraded", &unknown, 121),
            said("Unknown", "KMSPlugins_Why0", "KMSPluginsDegraded: k")
        );
    }

    /// T-G13.
    #[test]
    fn only_degraded_has_inertia_and_some_have_more() {
        let now = [condition("KMSPluginsProgressing", "True", 100, "moving")];
        assert_eq!(seen("Progressing", &now, 100).0, "True");
        let down = [condition("KMSPluginsAvailable", "False", 100, "down")];
        assert_eq!(
            seen("Available", &down, 100),
            said("False", "KMSPlugins_Why100", "KMSPluginsAvailable: down")
        );
        let slow = [condition("StaticPodsDegraded", "True", 0, "s")];
        let inertia =
            Inertia { special: vec![("StaticPodsDegraded", Duration::from_secs(600))], ..Inertia::default() };
        let status = |now| union(slot("Degraded"), &slow, &inertia, at(now)).0.status;
        assert_eq!((status(599).as_str(), status(601).as_str()), ("False", "True"));
    }

    #[test]
    fn a_condition_that_is_named_like_the_slot_has_no_prefix() {
        assert_eq!(seen("Degraded", &[condition("Degraded", "True", 0, "")], 500).1, "Why0");
        assert_eq!(unmanaged(slot("Degraded"), at(0)).reason, "Unmanaged");
    }
}
