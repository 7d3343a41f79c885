//! Whether what people and other systems gave to a node is fit for it: a volume, keys, a certificate.

pub(super) mod claim;
pub(super) mod keys;
pub(super) mod tls_secret;

use super::world::SecretSight;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is fit.
    Fit,
    /// It is not there yet, or not complete: what is missing, and what to do.
    NotYet(String),
    /// It never will be, as it is: why, and what to do.
    Unfit(String),
}

impl Verdict {
    /// The first that is not fit, worst first.
    fn worst(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let mut worst = Self::Fit;
        for verdict in verdicts {
            match (&worst, &verdict) {
                (_, Self::Unfit(_)) => return verdict,
                (Self::Fit, Self::NotYet(_)) => worst = verdict,
                _ => {}
            }
        }
        worst
    }
}

/// One value of a Secret that was asked for.
fn value<'a>(name: &str, sight: Option<&'a SecretSight>, key: &str) -> Result<&'a [u8], Verdict> {
    let secret = secret(name, sight)?;
    let value = secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
    value
        .filter(|bytes| !bytes.is_empty())
        .ok_or_else(|| Verdict::Unfit(format!("Secret {name} has nothing under {key}: put it there")))
}

/// A Secret that was asked for, if it is there and stays.
fn secret<'a>(
    name: &str,
    sight: Option<&'a SecretSight>,
) -> Result<&'a k8s_openapi::api::core::v1::Secret, Verdict> {
    match sight {
        Some(SecretSight::Found(secret)) if secret.metadata.deletion_timestamp.is_some() => {
            Err(Verdict::NotYet(format!("Secret {name} is being deleted: create it again")))
        }
        Some(SecretSight::Found(secret)) => Ok(secret),
        Some(SecretSight::Unreadable(why)) => {
            Err(Verdict::NotYet(format!("Secret {name} cannot be read: {why}")))
        }
        Some(SecretSight::Missing) | None => {
            Err(Verdict::NotYet(format!("Secret {name} is not there: create it")))
        }
    }
}
