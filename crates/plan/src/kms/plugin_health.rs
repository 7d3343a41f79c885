//! Evaluation of a plugin probe with the acceptance rules of kube-apiserver: a plugin that an API server would not use is never
//! reported as healthy.

use api::kms::{Cause, DETAIL_LIMIT, KEY_ID_LIMIT, PluginStatus, redact, sanitize};

use super::call::{CallError, StatusReply};

/// `healthz` value of a healthy plugin. Any other value, including `OK`, is an error description.
const OK: &str = "ok";

/// KMS API versions that API servers accept.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// Health of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginHealth {
    /// Status.
    pub status: PluginStatus,
    /// Cause, unless healthy.
    pub cause: Option<Cause>,
    /// Sanitized and redacted message for users: cause, error text and hint.
    pub detail: Option<String>,
    /// Sanitized ID of the KMS key, also of an unhealthy plugin, if an API server would accept it.
    pub key_id: Option<String>,
}

impl PluginHealth {
    fn healthy(key_id: Option<String>) -> Self {
        Self { status: PluginStatus::Healthy, cause: None, detail: None, key_id }
    }

    fn failing(status: PluginStatus, cause: Cause, message: &str, key_id: Option<String>) -> Self {
        Self { status, cause: Some(cause), detail: Some(detail(cause, message)), key_id }
    }

    /// Marks a healthy plugin as unhealthy after a failed encrypt/decrypt round trip.
    #[must_use]
    pub fn after_round_trip(self, why: &str) -> Self {
        if self.status != PluginStatus::Healthy {
            return self;
        }
        Self::failing(PluginStatus::Unhealthy, Cause::RoundTripFailed, why, self.key_id)
    }
}

/// Formats a detail that starts with the cause and ends with the hint. The error text is truncated to fit.
fn detail(cause: Cause, message: &str) -> String {
    let hint = cause.hint();
    let fixed = format!("{cause}: ; {hint}").chars().count();
    let message = sanitize(&redact(message), DETAIL_LIMIT.saturating_sub(fixed));
    format!("{cause}: {message}; {hint}")
}

/// Evaluates a Status call. `first_version` is the first accepted version that this plugin reported.
#[must_use]
pub fn evaluate_status(
    response: &Result<StatusReply, CallError>,
    first_version: Option<&str>,
) -> PluginHealth {
    let answer = match response {
        Ok(answer) => answer,
        Err(failure) => {
            return PluginHealth::failing(PluginStatus::Error, failure.cause(), &failure.to_string(), None);
        }
    };
    let StatusReply { version, healthz, key_id } = answer;
    let accepted = (1..=KEY_ID_LIMIT).contains(&key_id.len());
    let reported_id = accepted.then(|| sanitize(key_id, KEY_ID_LIMIT));
    let unhealthy = |cause, message: &str| {
        PluginHealth::failing(PluginStatus::Unhealthy, cause, message, reported_id.clone())
    };
    if healthz != OK {
        let message = if healthz.trim().is_empty() { "the plugin gave no reason" } else { healthz };
        return unhealthy(Cause::NotOk, message);
    }
    if !is_supported_version(version) {
        return unhealthy(Cause::BadVersion, &format!("unsupported plugin version {version:?}"));
    }
    if let Some(first) = first_version.filter(|first| first != version) {
        return unhealthy(
            Cause::BadVersion,
            &format!("plugin version changed from {first:?} to {version:?}"),
        );
    }
    if key_id.is_empty() {
        return unhealthy(Cause::BadKeyId, "the plugin returned no key ID");
    }
    if !accepted {
        return unhealthy(Cause::BadKeyId, &format!("key ID of {} bytes is too long", key_id.len()));
    }
    PluginHealth::healthy(reported_id)
}

/// Reports whether API servers accept a version.
#[must_use]
pub fn is_supported_version(version: &str) -> bool {
    VERSIONS.contains(&version)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api::kms::RpcCode;

    use super::*;

    fn answer(version: &str, healthz: &str, key_id: &str) -> Result<StatusReply, CallError> {
        Ok(StatusReply { version: version.into(), healthz: healthz.into(), key_id: key_id.into() })
    }

    fn cause(response: &Result<StatusReply, CallError>) -> (PluginStatus, Option<Cause>) {
        let health = evaluate_status(response, None);
        assert_eq!(health.cause.is_some(), health.status != PluginStatus::Healthy);
        assert_eq!(health.detail.as_deref().and_then(Cause::from_detail), health.cause);
        (health.status, health.cause)
    }

    #[test]
    fn status_is_evaluated_like_api_server() {
        use PluginStatus::{Healthy, Unhealthy};
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
    fn version_change_is_unhealthy() {
        let later = evaluate_status(&answer("v2beta1", "ok", "k"), Some("v2"));
        assert_eq!(later.cause, Some(Cause::BadVersion));
        assert!(later.detail.is_some_and(|detail| detail.contains("from \"v2\" to \"v2beta1\"")));
        assert_eq!(evaluate_status(&answer("v2", "ok", "k"), Some("v2")).status, PluginStatus::Healthy);
    }

    #[test]
    fn key_id_is_kept_when_unhealthy_and_absent_on_error() {
        assert_eq!(evaluate_status(&answer("v2", "err", "k\n1"), None).key_id.as_deref(), Some("k 1"));
        assert_eq!(evaluate_status(&answer("v2", "ok", &"x".repeat(1025)), None).key_id, None);
        assert_eq!(evaluate_status(&Err(CallError::Empty), None).key_id, None);
    }

    #[test]
    fn call_failure_is_error_with_cause() {
        for (failure, expected) in [
            (CallError::SocketMissing, Cause::SocketMissing),
            (CallError::PermissionDenied, Cause::PermissionDenied),
            (CallError::ConnectionRefused("refused".into()), Cause::ConnectionRefused),
            (CallError::Protocol("HTTP/1".into()), Cause::ProtocolError),
            (CallError::Timeout(Duration::from_secs(5)), Cause::Timeout),
            (
                CallError::Rpc { code: RpcCode::new(14), message: String::new() },
                Cause::RpcError(RpcCode::new(14)),
            ),
            (CallError::Empty, Cause::EmptyResponse),
        ] {
            assert_eq!(cause(&Err(failure)), (PluginStatus::Error, Some(expected)));
        }
    }

    #[test]
    fn long_detail_keeps_cause_and_hint() {
        let long_text = format!("token=hunter2 {}", "鍵\n".repeat(5000));
        for response in [
            answer("v2", &long_text, "k"),
            Err(CallError::Rpc { code: RpcCode::new(7), message: long_text.clone() }),
        ] {
            let health = evaluate_status(&response, None);
            let detail = health.detail.unwrap();
            assert_eq!(detail.chars().count(), DETAIL_LIMIT);
            assert!(detail.ends_with(health.cause.unwrap().hint()), "{detail}");
            assert!(!detail.contains("hunter2") && !detail.contains('\n'), "{detail}");
        }
    }

    #[test]
    fn failed_round_trip_affects_healthy_plugins_only() {
        let failed = evaluate_status(&answer("v2", "ok", "k"), None).after_round_trip("Decrypt: denied");
        assert_eq!((failed.status, failed.cause), (PluginStatus::Unhealthy, Some(Cause::RoundTripFailed)));
        let error = evaluate_status(&Err(CallError::Empty), None);
        assert_eq!(error.clone().after_round_trip("x"), error);
    }
}
