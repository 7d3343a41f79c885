//! What the answers of a plugin to Status, Encrypt and Decrypt mean, step by step, as kube-apiserver would take them.

use std::time::Duration;

use api::kms::check::{Outcome, PluginCheck, Step, StepName};
use api::kms::{Cause, DETAIL_LIMIT, clean, redact};

use super::call::{Encrypted, Failure, StatusAnswer};
use super::round_trip::{self, Refused};
use super::verdict;

/// How a call ended, and how long it took.
#[derive(Clone, Debug)]
pub struct Timed<T> {
    /// How it ended.
    pub answer: Result<T, Failure>,
    /// How long it took.
    pub took: Duration,
}

/// What a plugin answered.
#[derive(Clone, Debug)]
pub struct Answers<'a> {
    /// Where it listens.
    pub socket: &'a str,
    /// What was to be encrypted.
    pub plaintext: &'a [u8],
    /// To Status.
    pub status: Timed<StatusAnswer>,
    /// To Encrypt, if it was called.
    pub encrypted: Option<Timed<Encrypted>>,
    /// To Decrypt, if it was called.
    pub decrypted: Option<Timed<Vec<u8>>>,
}

/// What the answers mean. `full`: the plugin is to encrypt and decrypt; else only its status counts.
#[must_use]
pub fn judge(answers: &Answers<'_>, full: bool) -> PluginCheck {
    let mut steps = status(&answers.status);
    steps.extend(encrypt(answers));
    steps.push(decrypt(answers));
    let taken = if full { &steps[..] } else { &steps[..3] };
    let passed = taken.iter().all(|step| step.outcome == Outcome::Passed);
    let said = answers.status.answer.as_ref().ok();
    PluginCheck {
        socket: answers.socket.to_owned(),
        passed,
        version: said.map(|answer| clean(&answer.version, 64)),
        remote_key_id: verdict::judge(&answers.status.answer, None).key_id,
        steps,
    }
}

/// Whether a plugin that answered so is worth asking to encrypt.
#[must_use]
pub fn goes_on(status: &Timed<StatusAnswer>) -> bool {
    // Also one that says that it is not well: what it cannot do is told then, too.
    status.answer.is_ok()
}

fn status(asked: &Timed<StatusAnswer>) -> Vec<Step> {
    let verdict = verdict::judge(&asked.answer, None);
    let failed_at = match verdict.cause {
        None => None,
        Some(Cause::BadVersion) => Some(1),
        Some(Cause::BadKeyId) => Some(2),
        Some(_) => Some(0),
    };
    let names = [StepName::Status, StepName::Version, StepName::KeyId];
    let mut steps: Vec<Step> = names
        .into_iter()
        .enumerate()
        .map(|(place, name)| match failed_at {
            Some(failed) if place > failed => plain(name, Outcome::Skipped),
            Some(failed) if place == failed => Step {
                cause: verdict.cause.map(|cause| cause.to_string()),
                detail: verdict.detail.clone(),
                ..plain(name, Outcome::Failed)
            },
            _ => plain(name, Outcome::Passed),
        })
        .collect();
    steps[0].milliseconds = Some(milliseconds(asked.took));
    steps
}

fn encrypt(answers: &Answers<'_>) -> Vec<Step> {
    const NAMES: [StepName; 3] = [StepName::Ciphertext, StepName::SameKeyId, StepName::Annotations];
    let skipped = || NAMES.map(|name| plain(name, Outcome::Skipped)).to_vec();
    let Some(Timed { answer, took }) = &answers.encrypted else {
        return [vec![plain(StepName::Encrypt, Outcome::Skipped)], skipped()].concat();
    };
    let given = match answer {
        Ok(given) => given,
        Err(failure) => return [vec![call_failed(StepName::Encrypt, failure, *took)], skipped()].concat(),
    };
    let key_id = answers.status.answer.as_ref().map_or("", |status| status.key_id.as_str());
    let refused = round_trip::accept(answers.plaintext, key_id, given).err();
    let failed_at = refused.as_ref().map(|refused| match refused {
        Refused::OtherKey => 1,
        Refused::AnnotationsTooLong(_) | Refused::AnnotationName(_) => 2,
        _ => 0,
    });
    let called =
        Step { milliseconds: Some(milliseconds(*took)), ..plain(StepName::Encrypt, Outcome::Passed) };
    let judged = NAMES.into_iter().enumerate().map(|(place, name)| match (&refused, failed_at) {
        (Some(refused), Some(failed)) if place == failed => refusal(name, refused),
        (_, Some(failed)) if place > failed => plain(name, Outcome::Skipped),
        _ => plain(name, Outcome::Passed),
    });
    [called].into_iter().chain(judged).collect()
}

fn decrypt(answers: &Answers<'_>) -> Step {
    let Some(Timed { answer, took }) = &answers.decrypted else {
        return plain(StepName::Decrypt, Outcome::Skipped);
    };
    let took = Some(milliseconds(*took));
    match answer {
        Err(failure) => Step { milliseconds: took, ..failed(StepName::Decrypt, failure) },
        Ok(text) => match round_trip::same(answers.plaintext, text) {
            Ok(()) => Step { milliseconds: took, ..plain(StepName::Decrypt, Outcome::Passed) },
            Err(refused) => Step { milliseconds: took, ..refusal(StepName::Decrypt, &refused) },
        },
    }
}

fn plain(step: StepName, outcome: Outcome) -> Step {
    Step { step, outcome, milliseconds: None, cause: None, detail: None }
}

fn call_failed(step: StepName, failure: &Failure, took: Duration) -> Step {
    Step { milliseconds: Some(milliseconds(took)), ..failed(step, failure) }
}

fn failed(step: StepName, failure: &Failure) -> Step {
    let cause = failure.cause();
    let said = clean(&redact(&failure.to_string()), DETAIL_LIMIT / 2);
    Step {
        cause: Some(cause.to_string()),
        detail: Some(format!("{said}; {}", cause.hint())),
        ..plain(step, Outcome::Failed)
    }
}

fn refusal(step: StepName, refused: &Refused) -> Step {
    Step {
        cause: Some(Cause::RoundTripFailed.to_string()),
        detail: Some(clean(&refused.to_string(), DETAIL_LIMIT)),
        ..plain(step, Outcome::Failed)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::kms::RpcCode;

    fn timed<T>(answer: Result<T, Failure>) -> Timed<T> {
        Timed { answer, took: Duration::from_millis(7) }
    }

    fn good() -> Answers<'static> {
        let status = StatusAnswer { version: "v2".into(), healthz: "ok".into(), key_id: "k".into() };
        let sealed = Encrypted { ciphertext: b"sealed".to_vec(), key_id: "k".into(), ..Encrypted::default() };
        Answers {
            socket: "unix:///s",
            plaintext: b"text",
            status: timed(Ok(status)),
            encrypted: Some(timed(Ok(sealed))),
            decrypted: Some(timed(Ok(b"text".to_vec()))),
        }
    }

    fn failure(change: impl FnOnce(&mut Answers<'_>)) -> (StepName, String) {
        let mut answers = good();
        change(&mut answers);
        let checked = judge(&answers, true);
        assert!(!checked.passed);
        assert_eq!(checked.steps.iter().map(|step| step.step).collect::<Vec<_>>(), StepName::ALL);
        let step = checked.failure().unwrap();
        assert!(step.detail.as_ref().is_some_and(|detail| !detail.is_empty()));
        (step.step, step.cause.clone().unwrap())
    }

    fn status(answers: &mut Answers<'_>, change: impl FnOnce(&mut StatusAnswer)) {
        change(answers.status.answer.as_mut().unwrap());
    }

    fn sealed(answers: &mut Answers<'_>, change: impl FnOnce(&mut Encrypted)) {
        change(answers.encrypted.as_mut().unwrap().answer.as_mut().unwrap());
    }

    #[test]
    fn a_good_plugin_passes_every_step() {
        let checked = judge(&good(), true);
        assert!(checked.passed && checked.failure().is_none());
        assert_eq!((checked.version.as_deref(), checked.remote_key_id.as_deref()), (Some("v2"), Some("k")));
        assert!(checked.steps.iter().all(|step| step.outcome == Outcome::Passed));
    }

    /// T-F4.
    #[test]
    fn each_fault_is_told_at_its_step() {
        let denied = || Failure::Rpc { code: RpcCode::new(7), message: "denied".into() };
        let named = |name: StepName, cause: &str| (name, cause.to_owned());
        assert_eq!(
            failure(|a| a.status.answer = Err(Failure::SocketMissing)),
            named(StepName::Status, "SocketMissing")
        );
        assert_eq!(failure(|a| status(a, |s| s.healthz = "err".into())), named(StepName::Status, "NotOk"));
        assert_eq!(
            failure(|a| status(a, |s| s.version = "v1".into())),
            named(StepName::Version, "BadVersion")
        );
        assert_eq!(failure(|a| status(a, |s| s.key_id.clear())), named(StepName::KeyId, "BadKeyID"));
        let called = |a: &mut Answers<'_>| a.encrypted = Some(timed(Err(denied())));
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
        let noted = |a: &mut Answers<'_>| sealed(a, |e| e.annotations = [("x".into(), vec![])].into());
        assert_eq!(failure(noted), round_trip(StepName::Annotations));
        let other = |a: &mut Answers<'_>| a.decrypted = Some(timed(Ok(b"other".to_vec())));
        assert_eq!(failure(other), round_trip(StepName::Decrypt));
        let undone = |a: &mut Answers<'_>| a.decrypted = Some(timed(Err(denied())));
        assert_eq!(failure(undone), named(StepName::Decrypt, "RpcError(PermissionDenied)"));
    }

    #[test]
    fn a_plugin_that_only_decrypts_is_judged_by_its_status() {
        let mut answers = good();
        (answers.encrypted, answers.decrypted) = (None, None);
        assert!(judge(&answers, false).passed);
        assert!(!judge(&answers, true).passed);
    }
}
