//! Validates what people and other systems provide: the spec, a volume, keys, a certificate.

pub(super) mod claim;
mod image;
pub(super) mod keys;
pub(super) mod reference;
pub(super) mod spec;
pub(super) mod tls_secret;

pub use tls_secret::certificate_expiry;

use super::context::is_terminating;
use super::exclusive::{ExclusiveObject, ExclusiveUser};
use super::observed::{Observed, SecretObservation};

/// The result of validating an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    /// The input is valid.
    Valid,
    /// The input is missing or incomplete: what is missing, and what to do.
    Pending(String),
    /// Another node uses the input: which one, and what to do.
    InUse(String),
    /// The input can never be used as it is: why, and what to do.
    Invalid(String),
}

impl CheckResult {
    /// Returns the result of another check, if this one is valid.
    pub(super) fn and_then(self, other: impl FnOnce() -> Self) -> Self {
        if self == Self::Valid { other() } else { self }
    }

    /// Returns the first invalid result, or else the first pending one.
    fn worst(results: impl IntoIterator<Item = Self>) -> Self {
        let mut worst = Self::Valid;
        for result in results {
            match (&worst, &result) {
                (_, Self::Invalid(_)) => return result,
                (Self::Valid, Self::Pending(_) | Self::InUse(_)) => worst = result,
                _ => {}
            }
        }
        worst
    }
}

/// Checks that no other node uses an object. Until that was observed, it is pending.
pub(super) fn exclusive(object: &ExclusiveObject, observed: &Observed) -> CheckResult {
    let name = object.name();
    let found = observed.exclusive_use.as_ref().filter(|found| found.object == *object);
    let Some(found) = found else {
        return CheckResult::Pending(format!("checking whether another node uses {name}"));
    };
    let Some(ExclusiveUser { node, evidence }) = &found.user else { return CheckResult::Valid };
    CheckResult::InUse(match object {
        ExclusiveObject::SigningKey(_) => format!(
            "Secret {name} is the signing key of SeiNode {node} ({evidence}), and a key that signs in two places is slashed: create \
             the node with another key, or delete SeiNode {node} and wait until its pod is gone"
        ),
        ExclusiveObject::Claim(_) => format!(
            "PersistentVolumeClaim {name} is used by SeiNode {node} ({evidence}), and two nodes corrupt one volume: create the node \
             with another volume, or delete SeiNode {node} and wait until its pod is gone"
        ),
    })
}

/// Returns a value of a Secret.
fn value<'a>(
    name: &str,
    observed: Option<&'a SecretObservation>,
    key: &str,
) -> Result<&'a [u8], CheckResult> {
    let secret = secret(name, observed)?;
    let value = secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
    value
        .filter(|bytes| !bytes.is_empty())
        .ok_or_else(|| CheckResult::Invalid(format!("Secret {name} has no value for key {key}: add it")))
}

/// Returns a Secret, if it exists and is not being deleted.
fn secret<'a>(
    name: &str,
    observed: Option<&'a SecretObservation>,
) -> Result<&'a k8s_openapi::api::core::v1::Secret, CheckResult> {
    match observed {
        Some(SecretObservation::Found(found)) if is_terminating(&found.secret) => {
            Err(CheckResult::Pending(format!("Secret {name} is being deleted: create it again")))
        }
        Some(SecretObservation::Found(found)) => Ok(&found.secret),
        Some(SecretObservation::Unreadable(why)) => {
            Err(CheckResult::Pending(format!("Secret {name} cannot be read: {why}")))
        }
        Some(SecretObservation::Missing) | None => {
            Err(CheckResult::Pending(format!("Secret {name} not found: create it")))
        }
    }
}
