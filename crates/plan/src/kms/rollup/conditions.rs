//! The rollup: the first row that fits gives the reason, and the message tells everything.

use api::condition::{
    self, Change, KMSPluginsAvailable, KMSPluginsDegraded, KMSPluginsProgressing, KMSRemoteKeyConverged,
    Reason,
};
use api::kms::KeyRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::input::Rules;
use super::subject::{State, Subject};
use super::{Verdict, message};

/// The types of the conditions that are ours.
pub const TYPES: [&str; 4] = [
    KMSPluginsDegraded::CONDITION,
    KMSPluginsAvailable::CONDITION,
    KMSPluginsProgressing::CONDITION,
    KMSRemoteKeyConverged::CONDITION,
];

/// Our conditions as a verdict has them, from those that stand: what has not changed stays as it is, with its time. With
/// them, those whose status changed.
#[must_use]
pub fn record(
    verdict: Option<&Verdict>,
    stored: &[Condition],
    generation: i64,
    now: &Time,
) -> (Vec<Condition>, Vec<&'static str>) {
    let ours = |condition: &&Condition| TYPES.contains(&condition.type_.as_str());
    let mut conditions: Vec<Condition> = stored.iter().filter(ours).cloned().collect();
    let Some(Verdict { degraded, available, progressing, converged }) = verdict else {
        let gone = TYPES.into_iter().filter(|name| conditions.iter().any(|one| one.type_ == *name));
        return (Vec::new(), gone.collect());
    };
    let all = &mut conditions;
    let changes = [
        condition::set(all, degraded.0, &degraded.1, generation, now),
        condition::set(all, available.0, &available.1, generation, now),
        condition::set(all, progressing.0, &progressing.1, generation, now),
        condition::set(all, converged.0, &converged.1, generation, now),
    ];
    let moved = TYPES.into_iter().zip(changes).filter(|(_, change)| *change == Change::Status);
    (conditions, moved.map(|(name, _)| name).collect())
}

/// Whether a plugin is sick. What is bad comes before what is unknown, and that before what is good: a dead reporter hides no
/// sick plugin elsewhere, and alone does not say that a plugin is sick.
pub(super) fn degraded(rules: &Rules, subjects: &[Subject]) -> (KMSPluginsDegraded, String) {
    use KMSPluginsDegraded as Why;
    let any = |fits: &dyn Fn(&Subject) -> bool| subjects.iter().any(fits);
    let is = |role, state| any(&|one: &Subject| one.role == role && one.state == state);
    let seen = |state| any(&|one: &Subject| one.state == state);
    let read_sick = any(&|one: &Subject| one.role == KeyRole::Read && one.state.is_sick());
    let counts = |one: &Subject| one.role == KeyRole::Write || rules.read_degrades;
    let reason = if is(KeyRole::Write, State::Unhealthy) {
        Why::PluginUnhealthy
    } else if is(KeyRole::Write, State::Error) {
        Why::PluginError
    } else if rules.read_degrades && read_sick {
        Why::ReadPluginUnhealthy
    } else if any(&|one: &Subject| one.flapping && counts(one)) {
        Why::PluginFlapping
    } else if seen(State::Stale) {
        Why::ReporterStale
    } else if seen(State::Malformed) {
        Why::ReportMalformed
    } else if seen(State::NeverReported) {
        Why::ReporterMissing
    } else if seen(State::ClockSkew) {
        Why::ReporterClockSkew
    } else if seen(State::NotYetObserved) || subjects.is_empty() {
        Why::NotYetObserved
    } else {
        Why::AsExpected
    };
    (reason, message::of(subjects))
}

/// Whether new data can be encrypted. What is unknown does not count against it.
pub(super) fn available(subjects: &[Subject]) -> (KMSPluginsAvailable, String) {
    let writers: Vec<&Subject> = subjects.iter().filter(|one| one.role == KeyRole::Write).collect();
    let sick = writers.iter().filter(|one| one.state.is_sick()).count();
    if !writers.is_empty() && sick == writers.len() {
        let message = format!("the plugin that encrypts is sick on {sick} of {} nodes", writers.len());
        return (KMSPluginsAvailable::WritePluginDown, message);
    }
    let message = match sick {
        0 => "no plugin that encrypts is known to be sick".to_owned(),
        sick => format!("the plugin that encrypts is sick on {sick} of {} nodes", writers.len()),
    };
    (KMSPluginsAvailable::AsExpected, message)
}
