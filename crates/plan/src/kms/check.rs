//! Step-by-step evaluation of a plugin's Status, Encrypt and Decrypt responses with the acceptance rules of kube-apiserver.

use std::time::Duration;

use api::kms::check::{CheckOutcome, PluginCheck, Step, StepName};
use api::kms::{Cause, DETAIL_LIMIT, redact, sanitize};

use super::call::{CallError, EncryptReply, StatusReply};
use super::plugin_health;
use super::round_trip::{self, ReplyRejection};

/// Result and duration of a call.
#[derive(Clone, Debug)]
pub struct TimedCall<T> {
    /// Result.
    pub result: Result<T, CallError>,
    /// Duration.
    pub took: Duration,
}

/// Responses of a plugin.
#[derive(Clone, Debug)]
pub struct PluginReplies<'a> {
    /// Socket address.
    pub socket: &'a str,
    /// Plaintext sent to Encrypt.
    pub plaintext: &'a [u8],
    /// Response to Status.
    pub status: TimedCall<StatusReply>,
    /// Response to Encrypt, if called.
    pub encrypted: Option<TimedCall<EncryptReply>>,
    /// Response to Decrypt, if called.
    pub decrypted: Option<TimedCall<Vec<u8>>>,
}

/// Evaluates the responses. With `full`, the encrypt/decrypt round trip counts, too; otherwise only Status.
#[must_use]
pub fn evaluate(answers: &PluginReplies<'_>, full: bool) -> PluginCheck {
    let mut steps = status_steps(&answers.status);
    steps.extend(encrypt_steps(answers));
    steps.push(decrypt_step(answers));
    let relevant = if full { &steps[..] } else { &steps[..3] };
    let passed = relevant.iter().all(|step| step.outcome == CheckOutcome::Passed);
    let response = answers.status.result.as_ref().ok();
    PluginCheck {
        socket: answers.socket.to_owned(),
        passed,
        version: response.map(|answer| sanitize(&answer.version, 64)),
        remote_key_id: plugin_health::evaluate_status(&answers.status.result, None).key_id,
        steps,
    }
}

/// Reports whether Encrypt should be called after this Status response.
#[must_use]
pub fn should_encrypt(status: &TimedCall<StatusReply>) -> bool {
    // Also for an unhealthy plugin, so that the failing steps are reported, too.
    status.result.is_ok()
}

fn status_steps(response: &TimedCall<StatusReply>) -> Vec<Step> {
    let health = plugin_health::evaluate_status(&response.result, None);
    let failed_at = match health.cause {
        None => None,
        Some(Cause::BadVersion) => Some(1),
        Some(Cause::BadKeyId) => Some(2),
        Some(_) => Some(0),
    };
    let names = [StepName::Status, StepName::Version, StepName::KeyId];
    let mut steps: Vec<Step> = names
        .into_iter()
        .enumerate()
        .map(|(index, name)| match failed_at {
            Some(failed) if index > failed => bare_step(name, CheckOutcome::Skipped),
            Some(failed) if index == failed => Step {
                cause: health.cause.map(|cause| cause.to_string()),
                detail: health.detail.clone(),
                ..bare_step(name, CheckOutcome::Failed)
            },
            _ => bare_step(name, CheckOutcome::Passed),
        })
        .collect();
    steps[0].milliseconds = Some(milliseconds(response.took));
    steps
}

fn encrypt_steps(answers: &PluginReplies<'_>) -> Vec<Step> {
    const NAMES: [StepName; 3] = [StepName::Ciphertext, StepName::SameKeyId, StepName::Annotations];
    let skipped = || NAMES.map(|name| bare_step(name, CheckOutcome::Skipped)).to_vec();
    let Some(TimedCall { result: answer, took }) = &answers.encrypted else {
        return [vec![bare_step(StepName::Encrypt, CheckOutcome::Skipped)], skipped()].concat();
    };
    let response = match answer {
        Ok(response) => response,
        Err(failure) => {
            return [vec![failed_call_step(StepName::Encrypt, failure, *took)], skipped()].concat();
        }
    };
    let key_id = answers.status.result.as_ref().map_or("", |status| status.key_id.as_str());
    let rejection = round_trip::check_encrypt_reply(answers.plaintext, key_id, response).err();
    let failed_at = rejection.as_ref().map(|rejection| match rejection {
        ReplyRejection::WrongKeyId => 1,
        ReplyRejection::AnnotationsTooLong(_) | ReplyRejection::AnnotationName(_) => 2,
        _ => 0,
    });
    let called = Step {
        milliseconds: Some(milliseconds(*took)),
        ..bare_step(StepName::Encrypt, CheckOutcome::Passed)
    };
    let checks = NAMES.into_iter().enumerate().map(|(index, name)| match (&rejection, failed_at) {
        (Some(rejection), Some(failed)) if index == failed => rejected_step(name, rejection),
        (_, Some(failed)) if index > failed => bare_step(name, CheckOutcome::Skipped),
        _ => bare_step(name, CheckOutcome::Passed),
    });
    [called].into_iter().chain(checks).collect()
}

fn decrypt_step(answers: &PluginReplies<'_>) -> Step {
    let Some(TimedCall { result: answer, took }) = &answers.decrypted else {
        return bare_step(StepName::Decrypt, CheckOutcome::Skipped);
    };
    let took = Some(milliseconds(*took));
    match answer {
        Err(failure) => Step { milliseconds: took, ..failed_step(StepName::Decrypt, failure) },
        Ok(text) => match round_trip::check_plaintext(answers.plaintext, text) {
            Ok(()) => Step { milliseconds: took, ..bare_step(StepName::Decrypt, CheckOutcome::Passed) },
            Err(rejection) => Step { milliseconds: took, ..rejected_step(StepName::Decrypt, &rejection) },
        },
    }
}

fn bare_step(step: StepName, outcome: CheckOutcome) -> Step {
    Step { step, outcome, milliseconds: None, cause: None, detail: None }
}

fn failed_call_step(step: StepName, failure: &CallError, took: Duration) -> Step {
    Step { milliseconds: Some(milliseconds(took)), ..failed_step(step, failure) }
}

fn failed_step(step: StepName, failure: &CallError) -> Step {
    let cause = failure.cause();
    let message = sanitize(&redact(&failure.to_string()), DETAIL_LIMIT / 2);
    Step {
        cause: Some(cause.to_string()),
        detail: Some(format!("{message}; {}", cause.hint())),
        ..bare_step(step, CheckOutcome::Failed)
    }
}

fn rejected_step(step: StepName, rejection: &ReplyRejection) -> Step {
    Step {
        cause: Some(Cause::RoundTripFailed.to_string()),
        detail: Some(sanitize(&rejection.to_string(), DETAIL_LIMIT)),
        ..bare_step(step, CheckOutcome::Failed)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::kms::RpcCode;

    fn timed<T>(answer: Result<T, CallError>) -> TimedCall<T> {
        TimedCall { result: answer, took: Duration::from_millis(7) }
    }

    fn good() -> PluginReplies<'static> {
        let status = StatusReply { version: "v2".into(), healthz: "ok".into(), key_id: "k".into() };
        let sealed =
            EncryptReply { ciphertext: b"sealed".to_vec(), key_id: "k".into(), ..EncryptReply::default() };
        PluginReplies {
            socket: "unix:///s",
            plaintext: b"text",
            status: timed(Ok(status)),
            encrypted: Some(timed(Ok(sealed))),
            decrypted: Some(timed(Ok(b"text".to_vec()))),
        }
    }

    fn failure(change: impl FnOnce(&mut PluginReplies<'_>)) -> (StepName, String) {
        let mut answers = good();
        change(&mut answers);
        let checked = evaluate(&answers, true);
        assert!(!checked.passed);
        assert_eq!(checked.steps.iter().map(|step| step.step).collect::<Vec<_>>(), StepName::ALL);
        let step = checked.failure().unwrap();
        assert!(step.detail.as_ref().is_some_and(|detail| !detail.is_empty()));
        (step.step, step.cause.clone().unwrap())
    }

    fn status(answers: &mut PluginReplies<'_>, change: impl FnOnce(&mut StatusReply)) {
        change(answers.status.result.as_mut().unwrap());
    }

    fn sealed(answers: &mut PluginReplies<'_>, change: impl FnOnce(&mut EncryptReply)) {
        change(answers.encrypted.as_mut().unwrap().result.as_mut().unwrap());
    }

    #[test]
    fn healthy_plugin_passes_every_step() {
        let checked = evaluate(&good(), true);
        assert!(checked.passed && checked.failure().is_none());
        assert_eq!((checked.version.as_deref(), checked.remote_key_id.as_deref()), (Some("v2"), Some("k")));
        assert!(checked.steps.iter().all(|step| step.outcome == CheckOutcome::Passed));
    }

    #[test]
    fn failure_is_reported_at_its_step() {
        let denied = || CallError::Rpc { code: RpcCode::new(7), message: "denied".into() };
        let named = |name: StepName, cause: &str| (name, cause.to_owned());
        assert_eq!(
            failure(|a| a.status.result = Err(CallError::SocketMissing)),
            named(StepName::Status, "SocketMissing")
        );
        assert_eq!(failure(|a| status(a, |s| s.healthz = "err".into())), named(StepName::Status, "NotOk"));
        assert_eq!(
            failure(|a| status(a, |s| s.version = "v1".into())),
            named(StepName::Version, "BadVersion")
        );
        assert_eq!(failure(|a| status(a, |s| s.key_id.clear())), named(StepName::KeyId, "BadKeyID"));
        let called = |a: &mut PluginReplies<'_>| a.encrypted = Some(timed(Err(denied())));
        assert_eq!(failure(called), named(StepName::Encrypt, "RpcError(PermissionDenied)"));
        let round_trip = |name| named(name, "RoundTripFailed");
        assert_eq!(failure(|a| sealed(a, |e| e.ciphertext.clear())), round_trip(StepName::Ciphertext));
        assert_eq!(
            failure(|a| sealed(a, |e| e.ciphertext = b"text".to_vec())),
            round_trip(StepName::Ciphertext)
        );
        assert_eq!(
            failure(|a| sealed(a, |e| e.ciphertext = vec![1; 1025])),
            round_trip(StepName::Ciphertext)
        );
        assert_eq!(failure(|a| sealed(a, |e| e.key_id = "other".into())), round_trip(StepName::SameKeyId));
        let noted = |a: &mut PluginReplies<'_>| sealed(a, |e| e.annotations = [("x".into(), vec![])].into());
        assert_eq!(failure(noted), round_trip(StepName::Annotations));
        let other = |a: &mut PluginReplies<'_>| a.decrypted = Some(timed(Ok(b"other".to_vec())));
        assert_eq!(failure(other), round_trip(StepName::Decrypt));
        let undone = |a: &mut PluginReplies<'_>| a.decrypted = Some(timed(Err(denied())));
        assert_eq!(failure(undone), named(StepName::Decrypt, "RpcError(PermissionDenied)"));
    }

    #[test]
    fn read_only_plugin_is_evaluated_by_status() {
        let mut answers = good();
        (answers.encrypted, answers.decrypted) = (None, None);
        assert!(evaluate(&answers, false).passed);
        assert!(!evaluate(&answers, true).passed);
    }
}
