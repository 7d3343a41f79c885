//! Conditions: what holds of an object, in words that alerts and scripts can rely on. A reason belongs to one condition and
//! to one status of it, so that naming the reason says all three.

mod fleet;
mod kms;
mod node;
mod reason;
mod shared;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub use fleet::{
    GenesisCeremonyComplete, GenesisCeremonyNeeded, NodesReady, PlanInProgress, RolloutInProgress, RouteReady,
};
pub use kms::{KMSPluginsAvailable, KMSPluginsDegraded, KMSPluginsProgressing, KMSRemoteKeyConverged};
pub use node::{
    ImportPVCReady, NodeKeyReady, NodeUpdateInProgress, OperatorKeyringReady, Ready, SidecarReady,
    SidecarTLSSecretReady, SigningKeyReady,
};
pub use reason::{Entry, Reason, Status};
pub use shared::{Paused, SpecApplied};

use crate::text::cut;

/// Every condition with every reason, kind by kind: what `docs/reference/conditions.md` is made from.
pub const ALL: &[&[Entry]] = &[node::ALL, fleet::ALL, shared::ALL, kms::ALL];

/// Most characters of a message. One that is longer would have the whole status refused.
const MESSAGE_LIMIT: usize = 32768;

/// What setting a condition changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// The reason, the message or the observed generation.
    Detail,
    /// The status: it is worth an event.
    Status,
}

/// Sets a condition: the only way in which one is written. The time of the last transition moves only with the status; a
/// time that moved at every look would make every look a write.
pub fn set<R: Reason>(
    conditions: &mut Vec<Condition>,
    reason: R,
    message: &str,
    generation: i64,
    now: &Time,
) -> Change {
    let wanted = Condition {
        type_: R::CONDITION.into(),
        status: reason.status().as_str().into(),
        reason: reason.as_str().into(),
        message: cut(message, MESSAGE_LIMIT),
        observed_generation: Some(generation),
        last_transition_time: now.clone(),
    };
    let Some(stored) = conditions.iter_mut().find(|condition| condition.type_ == wanted.type_) else {
        conditions.push(wanted);
        return Change::Status;
    };
    if stored.status != wanted.status {
        *stored = wanted;
        return Change::Status;
    }
    let wanted = Condition { last_transition_time: stored.last_transition_time.clone(), ..wanted };
    if *stored == wanted {
        return Change::Nothing;
    }
    *stored = wanted;
    Change::Detail
}

/// Whether a condition is set for exactly this reason.
#[must_use]
pub fn holds<R: Reason>(conditions: &[Condition], reason: R) -> bool {
    conditions.iter().any(|condition| {
        condition.type_ == R::CONDITION
            && condition.status == reason.status().as_str()
            && condition.reason == reason.as_str()
    })
}

/// Whether a condition is True, for whatever reason.
#[must_use]
pub fn is_true<R: Reason>(conditions: &[Condition]) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == R::CONDITION && condition.status == Status::True.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn at(second: u8) -> Time {
        serde_json::from_value(format!("2026-05-18T10:00:{second:02}Z").into()).unwrap()
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        assert_eq!(set(&mut conditions, SidecarReady::NotReady, "503", 1, &at(1)), Change::Status);
        assert_eq!(set(&mut conditions, SidecarReady::NotReady, "503", 1, &at(2)), Change::Nothing);
        assert_eq!(set(&mut conditions, SidecarReady::NotReady, "still 503", 1, &at(3)), Change::Detail);
        assert_eq!(set(&mut conditions, SidecarReady::NotReady, "still 503", 2, &at(4)), Change::Detail);
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert_eq!(conditions[0].observed_generation, Some(2));
        assert_eq!(set(&mut conditions, SidecarReady::Ready, "200", 2, &at(5)), Change::Status);
        assert_eq!(conditions[0].last_transition_time, at(5));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn a_new_reason_of_the_same_status_is_no_transition() {
        let mut conditions = Vec::new();
        set(&mut conditions, NodeUpdateInProgress::UpdateComplete, "plan a", 1, &at(1));
        let change = set(&mut conditions, NodeUpdateInProgress::UpdateFailed, "plan b", 1, &at(2));
        assert_eq!(change, Change::Detail);
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert!(holds(&conditions, NodeUpdateInProgress::UpdateFailed));
        assert!(!holds(&conditions, NodeUpdateInProgress::UpdateComplete));
        assert!(!is_true::<NodeUpdateInProgress>(&conditions));
    }

    #[test]
    fn conditions_of_others_are_left_alone() {
        let mut conditions = Vec::new();
        set(&mut conditions, Paused::NotPaused, "", 1, &at(1));
        let foreign = Condition { type_: "Foreign".into(), ..conditions[0].clone() };
        conditions.insert(0, foreign.clone());
        set(&mut conditions, Paused::Paused, "", 1, &at(2));
        assert_eq!(conditions[0], foreign);
        assert!(is_true::<Paused>(&conditions));
    }

    #[test]
    fn a_message_is_cut_to_what_can_be_stored() {
        let mut conditions = Vec::new();
        set(&mut conditions, SpecApplied::SpecInvalid, &"鍵".repeat(40_000), 1, &at(1));
        assert_eq!(conditions[0].message.chars().count(), MESSAGE_LIMIT);
        assert!(conditions[0].message.ends_with("..."));
    }

    #[test]
    fn every_reason_is_explained_and_belongs_to_one_status() {
        let mut seen = BTreeSet::new();
        for entry in ALL.iter().flat_map(|entries| entries.iter()) {
            let Entry { condition, reason, meaning, remedy, .. } = entry;
            assert!(seen.insert((condition, reason)), "{condition}/{reason} is there twice");
            for text in [entry.about, meaning, remedy] {
                assert!(text.ends_with('.') && !text.contains('|'), "{condition}/{reason}: {text:?}");
            }
        }
    }
}
