//! Status conditions with typed reasons. A reason belongs to exactly one condition type and status, so that it implies both.

mod fleet;
mod kms;
mod node;
mod reason;
mod shared;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub use fleet::{
    Available, GenesisCeremonyComplete, GenesisCeremonyNeeded, NodesReady, PlanInProgress, QuorumSafe,
    RolloutInProgress, RouteReady,
};
pub use kms::{KMSPluginsAvailable, KMSPluginsDegraded, KMSPluginsProgressing, KMSRemoteKeyConverged};
pub use node::{
    ChainSynced, ImportPVCReady, NodeKeyReady, NodeUpdateInProgress, OperatorKeyringReady, Ready,
    SidecarReady, SidecarTLSSecretReady, SigningKeyReady, StorageReady,
};
pub use reason::{Entry, Reason, Status};
pub use shared::{Paused, SpecApplied};

use crate::text::truncate;

/// All conditions and reasons, by kind. `docs/reference/conditions.md` is generated from them.
pub const ALL: &[&[Entry]] = &[node::ALL, fleet::ALL, shared::ALL, kms::ALL];

/// Maximum number of characters of a message. The API server rejects the whole status if it is exceeded.
const MESSAGE_LIMIT: usize = 32768;

/// The effect of setting a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionChange {
    /// The condition did not change.
    Unchanged,
    /// Reason, message or observed generation changed.
    Detail,
    /// The status changed, which warrants an event.
    Transition,
}

/// Sets a condition. `lastTransitionTime` changes only with the status: if it changed on every reconcile, every reconcile would
/// write the object.
pub fn set<R: Reason>(
    conditions: &mut Vec<Condition>,
    reason: R,
    message: &str,
    generation: i64,
    now: &Time,
) -> ConditionChange {
    let desired = Condition {
        type_: R::CONDITION.into(),
        status: reason.status().as_str().into(),
        reason: reason.as_str().into(),
        message: truncate(message, MESSAGE_LIMIT),
        observed_generation: Some(generation),
        last_transition_time: now.clone(),
    };
    let Some(stored) = conditions.iter_mut().find(|condition| condition.type_ == desired.type_) else {
        conditions.push(desired);
        return ConditionChange::Transition;
    };
    if stored.status != desired.status {
        *stored = desired;
        return ConditionChange::Transition;
    }
    let desired = Condition { last_transition_time: stored.last_transition_time.clone(), ..desired };
    if *stored == desired {
        return ConditionChange::Unchanged;
    }
    *stored = desired;
    ConditionChange::Detail
}

/// Restores the transition times of conditions that have the same status as in `stored`.
pub fn keep_transition_times(conditions: &mut [Condition], stored: &[Condition]) {
    for condition in conditions {
        let before = stored.iter().find(|before| before.type_ == condition.type_);
        if let Some(before) = before.filter(|before| before.status == condition.status) {
            condition.last_transition_time = before.last_transition_time.clone();
        }
    }
}

/// Returns the condition of a type.
#[must_use]
pub fn find<R: Reason>(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == R::CONDITION)
}

/// Returns whether the condition is set with this reason.
#[must_use]
pub fn has_reason<R: Reason>(conditions: &[Condition], reason: R) -> bool {
    find::<R>(conditions).is_some_and(|condition| {
        condition.status == reason.status().as_str() && condition.reason == reason.as_str()
    })
}

/// Returns whether the condition is True.
#[must_use]
pub fn is_true<R: Reason>(conditions: &[Condition]) -> bool {
    find::<R>(conditions).is_some_and(|condition| condition.status == Status::True.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn at(second: u8) -> Time {
        serde_json::from_value(format!("2026-05-18T10:00:{second:02}Z").into()).unwrap()
    }

    #[test]
    fn transition_time_changes_only_with_status() {
        let mut conditions = Vec::new();
        assert_eq!(
            set(&mut conditions, SidecarReady::NotReady, "503", 1, &at(1)),
            ConditionChange::Transition
        );
        assert_eq!(
            set(&mut conditions, SidecarReady::NotReady, "503", 1, &at(2)),
            ConditionChange::Unchanged
        );
        assert_eq!(
            set(&mut conditions, SidecarReady::NotReady, "still 503", 1, &at(3)),
            ConditionChange::Detail
        );
        assert_eq!(
            set(&mut conditions, SidecarReady::NotReady, "still 503", 2, &at(4)),
            ConditionChange::Detail
        );
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert_eq!(conditions[0].observed_generation, Some(2));
        assert_eq!(set(&mut conditions, SidecarReady::Ready, "200", 2, &at(5)), ConditionChange::Transition);
        assert_eq!(conditions[0].last_transition_time, at(5));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn new_reason_with_same_status_is_not_a_transition() {
        let mut conditions = Vec::new();
        set(&mut conditions, NodeUpdateInProgress::UpdateComplete, "plan a", 1, &at(1));
        let change = set(&mut conditions, NodeUpdateInProgress::UpdateFailed, "plan b", 1, &at(2));
        assert_eq!(change, ConditionChange::Detail);
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert!(has_reason(&conditions, NodeUpdateInProgress::UpdateFailed));
        assert!(!has_reason(&conditions, NodeUpdateInProgress::UpdateComplete));
        assert!(!is_true::<NodeUpdateInProgress>(&conditions));
    }

    #[test]
    fn foreign_conditions_are_preserved() {
        let mut conditions = Vec::new();
        set(&mut conditions, Paused::NotPaused, "", 1, &at(1));
        let foreign = Condition { type_: "Foreign".into(), ..conditions[0].clone() };
        conditions.insert(0, foreign.clone());
        set(&mut conditions, Paused::Paused, "", 1, &at(2));
        assert_eq!(conditions[0], foreign);
        assert!(is_true::<Paused>(&conditions));
    }

    #[test]
    fn long_message_is_truncated() {
        let mut conditions = Vec::new();
        set(&mut conditions, SpecApplied::SpecInvalid, &"鍵".repeat(40_000), 1, &at(1));
        assert_eq!(conditions[0].message.chars().count(), MESSAGE_LIMIT);
        assert!(conditions[0].message.ends_with("..."));
    }

    #[test]
    fn every_reason_is_documented_once() {
        let mut seen = BTreeSet::new();
        for entry in ALL.iter().flat_map(|entries| entries.iter()) {
            let Entry { condition, reason, meaning, remedy, .. } = entry;
            assert!(seen.insert((condition, reason)), "duplicate {condition}/{reason}");
            for text in [entry.about, meaning, remedy] {
                assert!(text.ends_with('.') && !text.contains('|'), "{condition}/{reason}: {text:?}");
            }
        }
    }
}
