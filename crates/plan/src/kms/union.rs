//! Aggregates operator conditions into ClusterOperator conditions like library-go's status syncer, for clusters without one.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Operator condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorCondition {
    /// Type.
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Last transition time.
    pub changed: Timestamp,
    /// Reason.
    pub reason: String,
    /// Message.
    pub message: String,
}

/// ClusterOperator condition to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionRule {
    /// Condition type. Operator conditions with this suffix contribute to it.
    pub name: &'static str,
    /// Healthy status.
    pub healthy_status: bool,
    /// Whether unhealthy conditions count only after their inertia.
    pub has_inertia: bool,
}

/// ClusterOperator conditions.
pub const CONDITION_RULES: [ConditionRule; 5] = [
    ConditionRule { name: "Degraded", healthy_status: false, has_inertia: true },
    ConditionRule { name: "Progressing", healthy_status: false, has_inertia: false },
    ConditionRule { name: "Available", healthy_status: true, has_inertia: false },
    ConditionRule { name: "Upgradeable", healthy_status: true, has_inertia: false },
    ConditionRule { name: "EvaluationConditionsDetected", healthy_status: false, has_inertia: false },
];

/// Time for which conditions may be unhealthy before they count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inertia {
    /// Default.
    pub default: Duration,
    /// Exceptions by type suffix.
    pub by_suffix: Vec<(&'static str, Duration)>,
}

impl Default for Inertia {
    fn default() -> Self {
        Self { default: Duration::from_secs(120), by_suffix: Vec::new() }
    }
}

impl Inertia {
    fn for_type(&self, type_: &str) -> Duration {
        let special = self.by_suffix.iter().find(|(suffix, _)| type_.ends_with(suffix));
        special.map_or(self.default, |(_, time)| *time)
    }
}

/// Computes a ClusterOperator condition, and the time at which it may change without new input.
#[must_use]
pub fn union_condition(
    rule: ConditionRule,
    conditions: &[OperatorCondition],
    inertia: &Inertia,
    now: Timestamp,
) -> (OperatorCondition, Option<Timestamp>) {
    let mut parts: Vec<&OperatorCondition> =
        conditions.iter().filter(|one| one.type_.ends_with(rule.name)).collect();
    parts.sort_by(|a, b| a.type_.cmp(&b.type_));
    let status_text = |holds: bool| if holds { "True" } else { "False" };
    let build = |status: &str, changed, reason: String, message| OperatorCondition {
        type_: rule.name.into(),
        status: status.into(),
        changed,
        reason,
        message,
    };
    if parts.is_empty() {
        return (build("Unknown", now, "NoData".into(), String::new()), None);
    }
    let bad: Vec<&OperatorCondition> =
        parts.iter().filter(|one| one.status != status_text(rule.healthy_status)).copied().collect();
    let counts_from = |one: &OperatorCondition| {
        let wait = if rule.has_inertia { inertia.for_type(&one.type_) } else { Duration::ZERO };
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
        one.changed.saturating_add(wait).unwrap_or(Timestamp::MAX)
    };
    let is_counted = |one: &&&OperatorCondition| !rule.has_inertia || counts_from(one) < now;
    let next_change = bad.iter().filter(|one| !is_counted(one)).map(|one| counts_from(one)).min();
    let latest = |of: &[&OperatorCondition]| of.iter().map(|one| one.changed).max().unwrap_or(now);
    if !bad.iter().any(|one| is_counted(&one)) {
        let joined = join_messages(&parts);
        let message = if joined.is_empty() { "All is well".to_owned() } else { joined };
        return (
            build(status_text(rule.healthy_status), latest(&parts), "AsExpected".into(), message),
            next_change,
        );
    }
    let opposite = status_text(!rule.healthy_status);
    let status = if bad.iter().any(|one| one.status == opposite) { opposite } else { "Unknown" };
    (build(status, latest(&bad), join_reasons(rule, &bad), join_messages(&bad)), next_change)
}

/// Returns the condition of an unmanaged operator.
#[must_use]
pub fn unmanaged_condition(rule: ConditionRule, now: Timestamp) -> OperatorCondition {
    let message = "the operator is in an unmanaged state, therefore its status is unknown".into();
    let (type_, status, reason) = (rule.name.into(), "Unknown".into(), "Unmanaged".into());
    OperatorCondition { type_, status, changed: now, reason, message }
}

/// Joins the messages, each line prefixed with its condition type; duplicate lines of one condition are dropped.
fn join_messages(conditions: &[&OperatorCondition]) -> String {
    let mut all = Vec::new();
    for condition in conditions.iter().filter(|one| !one.message.is_empty()) {
        let mut seen = BTreeSet::new();
        for line in condition.message.lines().filter(|line| seen.insert(*line)) {
            all.push(format!("{}: {line}", condition.type_));
        }
    }
    all.join("\n")
}

fn join_reasons(rule: ConditionRule, bad: &[&OperatorCondition]) -> String {
    let reason = |one: &&OperatorCondition| {
        let prefix = one.type_.strip_suffix(rule.name).unwrap_or_default();
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

    fn rule(name: &str) -> ConditionRule {
        CONDITION_RULES.into_iter().find(|rule| rule.name == name).unwrap()
    }

    fn evaluate(name: &str, conditions: &[OperatorCondition], now: i64) -> (String, String, String) {
        let (condition, _) = union_condition(rule(name), conditions, &Inertia::default(), at(now));
        (condition.status, condition.reason, condition.message)
    }

    fn expected(status: &str, reason: &str, message: &str) -> (String, String, String) {
        (status.into(), reason.into(), message.into())
    }

    #[test]
    fn no_matching_condition_is_unknown() {
        let other = [condition("KMSHealthReporter_degraded", "True", 0, "x")];
        assert_eq!(evaluate("Degraded", &other, 500), expected("Unknown", "NoData", ""));
    }

    #[test]
    fn healthy_conditions_are_as_expected() {
        let quiet = [condition("ADegraded", "False", 0, "")];
        assert_eq!(evaluate("Degraded", &quiet, 500), expected("False", "AsExpected", "All is well"));
        let described =
            [condition("BDegraded", "False", 0, "b"), condition("ADegraded", "False", 0, "a\na\nc")];
        let all = "ADegraded: a\nADegraded: c\nBDegraded: b";
        assert_eq!(evaluate("Degraded", &described, 500), expected("False", "AsExpected", all));
        assert_eq!(evaluate("Available", &[condition("KMSPluginsAvailable", "True", 0, "")], 0).0, "True");
    }

    /// Once one unhealthy condition counts, the message contains younger ones, too.
    #[test]
    fn unhealthy_condition_counts_after_inertia() {
        let young = [condition("KMSPluginsDegraded", "True", 100, "failing")];
        assert_eq!(evaluate("Degraded", &young, 219).0, "False");
        assert_eq!(
            evaluate("Degraded", &young, 221),
            expected("True", "KMSPlugins_Why100", "KMSPluginsDegraded: failing")
        );
        let (_, again) = union_condition(rule("Degraded"), &young, &Inertia::default(), at(150));
        assert_eq!(again, Some(at(220)));
        let both =
            [condition("ZDegraded", "True", 200, "z"), condition("KMSPluginsDegraded", "Unknown", 0, "k")];
        let (condition, again) = union_condition(rule("Degraded"), &both, &Inertia::default(), at(250));
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_str()),
            ("True", "KMSPlugins_Why0::Z_Why200")
        );
        assert_eq!(
            (condition.message.as_str(), condition.changed),
            ("KMSPluginsDegraded: k\nZDegraded: z", at(200))
        );
        assert_eq!(again, Some(at(320)));
    }

    /// A stopped reporter alone makes the condition unknown after the inertia.
    #[test]
    fn unknown_condition_is_unknown_after_inertia() {
        let unknown =
            [condition("KMSPluginsDegraded", "Unknown", 0, "k"), condition("ADegraded", "False", 0, "a")];
        assert_eq!(evaluate("Degraded", &unknown, 100).0, "False");
        assert_eq!(
            evaluate("Degraded", &unknown, 121),
            expected("Unknown", "KMSPlugins_Why0", "KMSPluginsDegraded: k")
        );
    }

    #[test]
    fn only_degraded_has_inertia() {
        let now = [condition("KMSPluginsProgressing", "True", 100, "moving")];
        assert_eq!(evaluate("Progressing", &now, 100).0, "True");
        let down = [condition("KMSPluginsAvailable", "False", 100, "down")];
        assert_eq!(
            evaluate("Available", &down, 100),
            expected("False", "KMSPlugins_Why100", "KMSPluginsAvailable: down")
        );
        let slow = [condition("StaticPodsDegraded", "True", 0, "s")];
        let inertia = Inertia {
            by_suffix: vec![("StaticPodsDegraded", Duration::from_secs(600))],
            ..Inertia::default()
        };
        let status = |now| union_condition(rule("Degraded"), &slow, &inertia, at(now)).0.status;
        assert_eq!((status(599).as_str(), status(601).as_str()), ("False", "True"));
    }

    #[test]
    fn condition_equal_to_suffix_has_no_reason_prefix() {
        assert_eq!(evaluate("Degraded", &[condition("Degraded", "True", 0, "")], 500).1, "Why0");
        assert_eq!(unmanaged_condition(rule("Degraded"), at(0)).reason, "Unmanaged");
    }
}
