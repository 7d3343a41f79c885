//! Conditions: the first matching rule determines the reason, and the message lists every problem.

use api::condition::{
    self, ConditionChange, KMSPluginsAvailable, KMSPluginsDegraded, KMSPluginsProgressing,
    KMSRemoteKeyConverged, Reason,
};
use api::kms::KeyRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::input::RollupRules;
use super::plugin_state::{PluginObservation, PluginState};
use super::{KmsConditions, message};

/// Condition types managed by the aggregator.
pub const CONDITION_TYPES: [&str; 4] = [
    KMSPluginsDegraded::CONDITION,
    KMSPluginsAvailable::CONDITION,
    KMSPluginsProgressing::CONDITION,
    KMSRemoteKeyConverged::CONDITION,
];

/// Updates the stored conditions. Unchanged conditions keep their transition time. Also returns the types whose status changed.
#[must_use]
pub fn update_conditions(
    desired: Option<&KmsConditions>,
    stored: &[Condition],
    generation: i64,
    now: &Time,
) -> (Vec<Condition>, Vec<&'static str>) {
    let is_managed = |condition: &&Condition| CONDITION_TYPES.contains(&condition.type_.as_str());
    let mut conditions: Vec<Condition> = stored.iter().filter(is_managed).cloned().collect();
    let Some(KmsConditions { degraded, available, progressing, converged }) = desired else {
        let removed =
            CONDITION_TYPES.into_iter().filter(|name| conditions.iter().any(|one| one.type_ == *name));
        return (Vec::new(), removed.collect());
    };
    let all = &mut conditions;
    let changes = [
        condition::set(all, degraded.0, &degraded.1, generation, now),
        condition::set(all, available.0, &available.1, generation, now),
        condition::set(all, progressing.0, &progressing.1, generation, now),
        condition::set(all, converged.0, &converged.1, generation, now),
    ];
    let changed =
        CONDITION_TYPES.into_iter().zip(changes).filter(|(_, change)| *change == ConditionChange::Transition);
    (conditions, changed.map(|(name, _)| name).collect())
}

/// Computes the degraded condition. Unhealthy takes precedence over unknown, and unknown over healthy: a stopped reporter does not
/// hide an unhealthy plugin elsewhere and alone does not make a plugin unhealthy.
pub(super) fn degraded(rules: &RollupRules, plugins: &[PluginObservation]) -> (KMSPluginsDegraded, String) {
    use KMSPluginsDegraded as Why;
    let any = |fits: &dyn Fn(&PluginObservation) -> bool| plugins.iter().any(fits);
    let is = |role, state| any(&|one: &PluginObservation| one.role == role && one.state == state);
    let has = |state| any(&|one: &PluginObservation| one.state == state);
    let read_failing = any(&|one: &PluginObservation| one.role == KeyRole::Read && one.state.is_failing());
    let counts = |one: &PluginObservation| one.role == KeyRole::Write || rules.read_degrades;
    let reason = if is(KeyRole::Write, PluginState::Unhealthy) {
        Why::PluginUnhealthy
    } else if is(KeyRole::Write, PluginState::Error) {
        Why::PluginError
    } else if rules.read_degrades && read_failing {
        Why::ReadPluginUnhealthy
    } else if any(&|one: &PluginObservation| one.flapping && counts(one)) {
        Why::PluginFlapping
    } else if has(PluginState::Stale) {
        Why::ReporterStale
    } else if has(PluginState::Malformed) {
        Why::ReportMalformed
    } else if has(PluginState::NeverReported) {
        Why::ReporterMissing
    } else if has(PluginState::ClockSkew) {
        Why::ReporterClockSkew
    } else if has(PluginState::NotYetObserved) || plugins.is_empty() {
        Why::NotYetObserved
    } else {
        Why::AsExpected
    };
    (reason, message::format_message(plugins))
}

/// Computes the available condition. Unknown plugins do not count as unavailable.
pub(super) fn available(plugins: &[PluginObservation]) -> (KMSPluginsAvailable, String) {
    let writers: Vec<&PluginObservation> = plugins.iter().filter(|one| one.role == KeyRole::Write).collect();
    let unhealthy = writers.iter().filter(|one| one.state.is_failing()).count();
    if !writers.is_empty() && unhealthy == writers.len() {
        let message = format!("the write plugin is unhealthy on {unhealthy} of {} nodes", writers.len());
        return (KMSPluginsAvailable::WritePluginDown, message);
    }
    let message = match unhealthy {
        0 => "no write plugin is known to be unhealthy".to_owned(),
        unhealthy => format!("the write plugin is unhealthy on {unhealthy} of {} nodes", writers.len()),
    };
    (KMSPluginsAvailable::AsExpected, message)
}
