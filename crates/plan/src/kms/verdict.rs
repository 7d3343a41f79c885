//! What a probe of a plugin means. An API server that asked the same would come to the same verdict: a plugin that it would not use
//! must not be called healthy here.

use api::kms::{Cause, DETAIL_LIMIT, HealthStatus, KEY_ID_LIMIT, clean, redact};

use super::call::{Failure, StatusAnswer};

/// What a healthy plugin says. Anything else, and also `OK`, is what it complains of.
const OK: &str = "ok";

/// Versions of the interface that API servers accept.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// How a plugin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its class.
    pub class: HealthStatus,
    /// Why it is not healthy.
    pub cause: Option<Cause>,
    /// What to tell people, clean and without secrets: the cause, what was said, and a hint.
    pub detail: Option<String>,
    /// Id of the key in the KMS, clean, also of a plugin that is not well; only one that an API server would accept.
    pub key_id: Option<String>,
}

impl Verdict {
    fn healthy(key_id: Option<String>) -> Self {
        Self { class: HealthStatus::Healthy, cause: None, detail: None, key_id }
    }

    fn not(class: HealthStatus, cause: Cause, said: &str, key_id: Option<String>) -> Self {
        Self { class, cause: Some(cause), detail: Some(detail(cause, said)), key_id }
    }

    /// The same plugin after it failed to encrypt and decrypt: why.
    #[must_use]
    pub fn after_round_trip(self, why: &str) -> Self {
        if self.class != HealthStatus::Healthy {
            return self;
        }
        Self::not(HealthStatus::Unhealthy, Cause::RoundTripFailed, why, self.key_id)
    }
}

/// A detail that always begins with its cause and always ends with its hint: what the plugin said is cut to make room.
fn detail(cause: Cause, said: &str) -> String {
    let hint = cause.hint();
    let around = format!("{cause}: ; {hint}").chars().count();
    let said = clean(&redact(said), DETAIL_LIMIT.saturating_sub(around));
    format!("{cause}: {said}; {hint}")
}

/// Judges how a call of Status ended. `first_version` is the first acceptable version that this plugin ever gave.
#[must_use]
pub fn judge(asked: &Result<StatusAnswer, Failure>, first_version: Option<&str>) -> Verdict {
    let answer = match asked {
        Ok(answer) => answer,
        Err(failure) => {
            return Verdict::not(HealthStatus::Error, failure.cause(), &failure.to_string(), None);
        }
    };
    let StatusAnswer { version, healthz, key_id } = answer;
    let accepted = (1..=KEY_ID_LIMIT).contains(&key_id.len());
    let shown = accepted.then(|| clean(key_id, KEY_ID_LIMIT));
    let unhealthy = |cause, said: &str| Verdict::not(HealthStatus::Unhealthy, cause, said, shown.clone());
    if healthz != OK {
        let said = if healthz.trim().is_empty() { "the plugin gives no reason" } else { healthz };
        return unhealthy(Cause::NotOk, said);
    }
    if !is_version(version) {
        return unhealthy(Cause::BadVersion, &format!("the plugin's version is {version:?}"));
    }
    if let Some(first) = first_version.filter(|first| first != version) {
        return unhealthy(
            Cause::BadVersion,
            &format!("the plugin's version went from {first:?} to {version:?}"),
        );
    }
    if key_id.is_empty() {
        return unhealthy(Cause::BadKeyId, "the plugin gives no key id");
    }
    if !accepted {
        return unhealthy(Cause::BadKeyId, &format!("the plugin's key id has {} bytes", key_id.len()));
    }
    Verdict::healthy(shown)
}

/// Whether API servers accept a version.
#[must_use]
pub fn is_version(version: &str) -> bool {
    VERSIONS.contains(&version)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api::kms::RpcCode;

    use super::*;

    fn answer(version: &str, healthz: &str, key_id: &str) -> Result<StatusAnswer, Failure> {
        Ok(StatusAnswer { version: version.into(), healthz: healthz.into(), key_id: key_id.into() })
    }

    fn cause(asked: &Result<StatusAnswer, Failure>) -> (HealthStatus, Option<Cause>) {
        let verdict = judge(asked, None);
        assert_eq!(verdict.cause.is_some(), verdict.class != HealthStatus::Healthy);
        assert_eq!(verdict.detail.as_deref().and_then(Cause::of_detail), verdict.cause);
        (verdict.class, verdict.cause)
    }

    #[test]
    fn an_answer_is_judged_as_an_api_server_would() {
        use HealthStatus::{Healthy, Unhealthy};
        for (version, healthz, key_id, expected) in [
            ("v2", "ok", "k", (Healthy, None)),
            ("v2beta1", "ok", "k", (Healthy, None)),
            ("v2", "OK", "k", (Unhealthy, Some(Cause::NotOk))),
            ("v2", "", "k", (Unhealthy, Some(Cause::NotOk))),
            ("v2", "err", "", (Unhealthy, Some(Cause::NotOk))),
            ("v1", "ok", "k", (Unhealthy, Some(Cause::BadVersion))),
            ("", "ok", "k", (Unhealthy, Some(Cause::BadVersion))),
            ("v2", "ok", "", (Unhealthy, Some(Cause::BadKeyId))),
            ("v2", "ok", &"x".repeat(1024), (Healthy, None)),
            ("v2", "ok", &"x".repeat(1025), (Unhealthy, Some(Cause::BadKeyId))),
        ] {
            assert_eq!(cause(&answer(version, healthz, key_id)), expected, "{version} {healthz}");
        }
    }

    #[test]
    fn a_version_must_not_change() {
        let later = judge(&answer("v2beta1", "ok", "k"), Some("v2"));
        assert_eq!(later.cause, Some(Cause::BadVersion));
        assert!(later.detail.is_some_and(|detail| detail.contains("from \"v2\" to \"v2beta1\"")));
        assert_eq!(judge(&answer("v2", "ok", "k"), Some("v2")).class, HealthStatus::Healthy);
    }

    #[test]
    fn a_sick_plugin_keeps_its_key_id_and_a_silent_one_has_none() {
        assert_eq!(judge(&answer("v2", "err", "k\n1"), None).key_id.as_deref(), Some("k 1"));
        assert_eq!(judge(&answer("v2", "ok", &"x".repeat(1025)), None).key_id, None);
        assert_eq!(judge(&Err(Failure::Empty), None).key_id, None);
    }

    #[test]
    fn every_failure_is_an_error_with_its_cause() {
        for (failure, expected) in [
            (Failure::SocketMissing, Cause::SocketMissing),
            (Failure::PermissionDenied, Cause::PermissionDenied),
            (Failure::NotTaken("refused".into()), Cause::ConnectionRefused),
            (Failure::Protocol("HTTP/1".into()), Cause::ProtocolError),
            (Failure::Timeout(Duration::from_secs(5)), Cause::Timeout),
            (
                Failure::Rpc { code: RpcCode::new(14), message: String::new() },
                Cause::RpcError(RpcCode::new(14)),
            ),
            (Failure::Empty, Cause::EmptyResponse),
        ] {
            assert_eq!(cause(&Err(failure)), (HealthStatus::Error, Some(expected)));
        }
    }

    #[test]
    fn a_long_complaint_leaves_room_for_cause_and_hint() {
        let complaint = format!("token=hunter2 {}", "鍵\n".repeat(5000));
        for asked in [
            answer("v2", &complaint, "k"),
            Err(Failure::Rpc { code: RpcCode::new(7), message: complaint.clone() }),
        ] {
            let verdict = judge(&asked, None);
            let detail = verdict.detail.unwrap();
            assert_eq!(detail.chars().count(), DETAIL_LIMIT);
            assert!(detail.ends_with(verdict.cause.unwrap().hint()), "{detail}");
            assert!(!detail.contains("hunter2") && !detail.contains('\n'), "{detail}");
        }
    }

    #[test]
    fn a_failed_round_trip_makes_a_healthy_plugin_unhealthy_and_no_other() {
        let failed = judge(&answer("v2", "ok", "k"), None).after_round_trip("Decrypt: denied");
        assert_eq!((failed.class, failed.cause), (HealthStatus::Unhealthy, Some(Cause::RoundTripFailed)));
        let worse = judge(&Err(Failure::Empty), None);
        assert_eq!(worse.clone().after_round_trip("x"), worse);
    }
}
