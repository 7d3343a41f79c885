//! What a reporter remembers of one plugin, and what is worth telling.

use api::kms::{Cause, HealthStatus};

use super::call::{Failure, StatusAnswer};
use super::verdict::{Verdict, is_version, judge};

/// What is remembered of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    first_version: Option<String>,
    last_key_id: Option<String>,
    last: Option<(HealthStatus, Option<Cause>)>,
    round_trip: Option<String>,
}

/// What has changed since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The class or the cause is another one, or the first.
    pub class: bool,
    /// The key id is another one; not said of the first.
    pub key_id: bool,
}

impl History {
    /// The last key id that was good.
    #[must_use]
    pub fn last_key_id(&self) -> Option<&str> {
        self.last_key_id.as_deref()
    }

    /// Takes over a key id that an earlier process knew, if none is known.
    pub fn adopt(&mut self, key_id: &str) {
        if self.last_key_id.is_none() {
            self.last_key_id = Some(key_id.into());
        }
    }

    /// Whether the last try to encrypt and decrypt failed.
    #[must_use]
    pub fn failed_round_trip(&self) -> bool {
        self.round_trip.is_some()
    }

    /// Remembers how a try to encrypt and decrypt ended: it counts until the next one.
    pub fn tried_round_trip(&mut self, ended: Result<(), String>) {
        self.round_trip = ended.err();
    }

    /// Judges how a call of Status ended, and says what is new.
    pub fn look(&mut self, asked: &Result<StatusAnswer, Failure>) -> (Verdict, Change) {
        let mut verdict = judge(asked, self.first_version.as_deref());
        if let Some(why) = &self.round_trip {
            verdict = verdict.after_round_trip(why);
        }
        if let Ok(answer) = asked
            && self.first_version.is_none()
            && is_version(&answer.version)
        {
            self.first_version = Some(answer.version.clone());
        }
        let now = (verdict.class, verdict.cause);
        let mut change = Change { class: self.last != Some(now), key_id: false };
        self.last = Some(now);
        if let Some(key_id) = &verdict.key_id {
            change.key_id = self.last_key_id.as_ref().is_some_and(|last| last != key_id);
            self.last_key_id = Some(key_id.clone());
        }
        (verdict, change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(version: &str, healthz: &str, key_id: &str) -> Result<StatusAnswer, Failure> {
        Ok(StatusAnswer { version: version.into(), healthz: healthz.into(), key_id: key_id.into() })
    }

    #[test]
    fn only_what_is_new_is_told() {
        let mut history = History::default();
        let mut look = |asked: &Result<_, _>| history.look(asked).1;
        let change = |class, key_id| Change { class, key_id };
        assert_eq!(look(&answer("v2", "ok", "a")), change(true, false));
        assert_eq!(look(&answer("v2", "ok", "a")), change(false, false));
        assert_eq!(look(&answer("v2", "ok", "b")), change(false, true));
        assert_eq!(look(&Err(Failure::SocketMissing)), change(true, false));
        assert_eq!(look(&Err(Failure::SocketMissing)), change(false, false));
        assert_eq!(look(&Err(Failure::Empty)), change(true, false));
        assert_eq!(look(&answer("v2", "ok", "b")), change(true, false));
    }

    #[test]
    fn the_first_acceptable_version_counts_and_the_last_key_id_stays() {
        let mut history = History::default();
        assert_eq!(history.look(&answer("v1", "ok", "a")).0.cause, Some(Cause::BadVersion));
        assert_eq!(history.look(&answer("v2", "err", "a")).0.cause, Some(Cause::NotOk));
        assert_eq!(history.look(&answer("v2beta1", "ok", "a")).0.cause, Some(Cause::BadVersion));
        assert_eq!(history.look(&answer("v2", "ok", "a")).0.cause, None);
        history.look(&Err(Failure::Empty));
        assert_eq!(history.last_key_id(), Some("a"));
        history.adopt("older");
        assert_eq!(history.last_key_id(), Some("a"));
    }

    #[test]
    fn a_failed_round_trip_counts_until_the_next() {
        let mut history = History::default();
        history.tried_round_trip(Err("denied".into()));
        assert_eq!(history.look(&answer("v2", "ok", "a")).0.cause, Some(Cause::RoundTripFailed));
        assert!(history.failed_round_trip());
        history.tried_round_trip(Ok(()));
        assert_eq!(history.look(&answer("v2", "ok", "a")).0.cause, None);
    }
}
