//! Probe history of one plugin.

use api::kms::{Cause, PluginStatus};

use super::call::{CallError, StatusReply};
use super::plugin_health::{PluginHealth, evaluate_status, is_supported_version};

/// Probe history of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeHistory {
    first_version: Option<String>,
    last_key_id: Option<String>,
    last: Option<(PluginStatus, Option<Cause>)>,
    round_trip: Option<String>,
}

/// Difference from the previous probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthChange {
    /// Status or cause changed, or this is the first probe.
    pub status: bool,
    /// The key ID changed; false for the first one.
    pub key_id: bool,
}

impl ProbeHistory {
    /// Returns the last valid key ID.
    #[must_use]
    pub fn last_key_id(&self) -> Option<&str> {
        self.last_key_id.as_deref()
    }

    /// Restores the key ID of a previous process, unless one is known.
    pub fn restore_key_id(&mut self, key_id: &str) {
        if self.last_key_id.is_none() {
            self.last_key_id = Some(key_id.into());
        }
    }

    /// Reports whether the last encrypt/decrypt round trip failed.
    #[must_use]
    pub fn has_failed_round_trip(&self) -> bool {
        self.round_trip.is_some()
    }

    /// Records the result of an encrypt/decrypt round trip, which is valid until the next one.
    pub fn record_round_trip(&mut self, ended: Result<(), String>) {
        self.round_trip = ended.err();
    }

    /// Evaluates a Status call and returns the changes since the previous one.
    pub fn record_status(
        &mut self,
        response: &Result<StatusReply, CallError>,
    ) -> (PluginHealth, HealthChange) {
        let mut health = evaluate_status(response, self.first_version.as_deref());
        if let Some(why) = &self.round_trip {
            health = health.after_round_trip(why);
        }
        if let Ok(answer) = response
            && self.first_version.is_none()
            && is_supported_version(&answer.version)
        {
            self.first_version = Some(answer.version.clone());
        }
        let now = (health.status, health.cause);
        let mut change = HealthChange { status: self.last != Some(now), key_id: false };
        self.last = Some(now);
        if let Some(key_id) = &health.key_id {
            change.key_id = self.last_key_id.as_ref().is_some_and(|last| last != key_id);
            self.last_key_id = Some(key_id.clone());
        }
        (health, change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(version: &str, healthz: &str, key_id: &str) -> Result<StatusReply, CallError> {
        Ok(StatusReply { version: version.into(), healthz: healthz.into(), key_id: key_id.into() })
    }

    #[test]
    fn change_is_reported_once() {
        let mut history = ProbeHistory::default();
        let mut look = |response: &Result<_, _>| history.record_status(response).1;
        let change = |class, key_id| HealthChange { status: class, key_id };
        assert_eq!(look(&answer("v2", "ok", "a")), change(true, false));
        assert_eq!(look(&answer("v2", "ok", "a")), change(false, false));
        assert_eq!(look(&answer("v2", "ok", "b")), change(false, true));
        assert_eq!(look(&Err(CallError::SocketMissing)), change(true, false));
        assert_eq!(look(&Err(CallError::SocketMissing)), change(false, false));
        assert_eq!(look(&Err(CallError::Empty)), change(true, false));
        assert_eq!(look(&answer("v2", "ok", "b")), change(true, false));
    }

    #[test]
    fn first_accepted_version_and_last_key_id_are_kept() {
        let mut history = ProbeHistory::default();
        assert_eq!(history.record_status(&answer("v1", "ok", "a")).0.cause, Some(Cause::BadVersion));
        assert_eq!(history.record_status(&answer("v2", "err", "a")).0.cause, Some(Cause::NotOk));
        assert_eq!(history.record_status(&answer("v2beta1", "ok", "a")).0.cause, Some(Cause::BadVersion));
        assert_eq!(history.record_status(&answer("v2", "ok", "a")).0.cause, None);
        history.record_status(&Err(CallError::Empty));
        assert_eq!(history.last_key_id(), Some("a"));
        history.restore_key_id("older");
        assert_eq!(history.last_key_id(), Some("a"));
    }

    #[test]
    fn failed_round_trip_persists_until_next_one() {
        let mut history = ProbeHistory::default();
        history.record_round_trip(Err("denied".into()));
        assert_eq!(history.record_status(&answer("v2", "ok", "a")).0.cause, Some(Cause::RoundTripFailed));
        assert!(history.has_failed_round_trip());
        history.record_round_trip(Ok(()));
        assert_eq!(history.record_status(&answer("v2", "ok", "a")).0.cause, None);
    }
}
