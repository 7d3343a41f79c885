//! May he: static rules first, then the cache, then the API server.

pub(crate) mod attributes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::runtime::Handle;

pub(crate) use self::attributes::{Asked, Asking, Attributes, Missing};
use crate::cache::{Bounded, Digest, Limits, Lookups, Secret};
use crate::config::{Configuration, Rule};
use crate::identity::Identity;
use crate::metrics::{CacheName, ProxyMetrics};
use crate::reviews::{self, Reviews};

/// A decision, with the API server's reason for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// He may.
    Allowed,
    /// He may not.
    Denied(Arc<str>),
}

/// Why there is no decision.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API server gave none.
    #[error(transparent)]
    Review(#[from] reviews::Error),
    /// It both allowed and denied.
    #[error("the API server allowed and denied the same request")]
    Contradiction,
    /// The look-up broke.
    #[error("the look-up ended without an answer")]
    Lost,
}

/// How long decisions are remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) allowed: Duration,
    pub(crate) denied: Duration,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    allowed: bool,
    denied: bool,
    reason: String,
}

/// Decides.
#[derive(Debug)]
pub(crate) struct Authorizer {
    /// How attributes are made of requests.
    pub(crate) asking: Asking,
    rules: Vec<Rule>,
    cache: Arc<Bounded<Decision>>,
    lookups: Lookups<Result<Decision, Error>>,
    reviews: Arc<Reviews>,
    lifetimes: Lifetimes,
    metrics: ProxyMetrics,
}

impl Authorizer {
    /// Decides as configured.
    pub(crate) fn new(
        configuration: Configuration,
        secret: &Secret,
        (limits, lifetimes): (Limits, Lifetimes),
        (reviews, runtime): (Arc<Reviews>, Handle),
        metrics: &ProxyMetrics,
    ) -> Self {
        Self {
            asking: Asking::new(&configuration.question, secret),
            rules: configuration.rules,
            cache: Arc::new(Bounded::new(limits)),
            lookups: Lookups::on(runtime),
            reviews,
            lifetimes,
            metrics: metrics.clone(),
        }
    }

    /// The store of decisions.
    pub(crate) fn cache(&self) -> &Arc<Bounded<Decision>> {
        &self.cache
    }

    /// What is known without asking.
    pub(crate) fn known(&self, identity: &Identity, asked: &Asked<'_>, now: Instant) -> Option<Decision> {
        let allows = |rule: &Rule| rule.allows(&identity.user, &identity.groups, &asked.attributes);
        if self.rules.iter().any(allows) {
            return Some(Decision::Allowed);
        }
        let found = self.cache.get(key(identity, asked), now);
        self.metrics.looked_up(CacheName::Decisions, found.is_some());
        found
    }

    /// Asks the API server.
    pub(crate) async fn ask(&self, identity: &Identity, asked: &Asked<'_>) -> Result<Decision, Error> {
        let key = key(identity, asked);
        let (answer, joined) = self
            .lookups
            .join(key, || {
                let body = body(identity, &asked.attributes);
                let cached = asked.attributes.is_cached();
                let (reviews, cache, lifetimes) = (self.reviews.clone(), self.cache.clone(), self.lifetimes);
                async move {
                    // One that has ended since we looked may have found it.
                    if let Some(decision) = cache.get(key, Instant::now()) {
                        return Ok(decision);
                    }
                    let decision = decision(reviews.access(body).await?)?;
                    if cached {
                        let (lifetime, size) = match &decision {
                            Decision::Allowed => (lifetimes.allowed, 0),
                            Decision::Denied(reason) => (lifetimes.denied, reason.len()),
                        };
                        cache.put(key, decision.clone(), size, Instant::now() + lifetime);
                    }
                    Ok(decision)
                }
            })
            .await;
        if joined {
            self.metrics.joined(CacheName::Decisions);
        }
        answer.unwrap_or(Err(Error::Lost))
    }
}

/// Both digests are keyed and random: their difference is as good a key as a digest of both would be.
fn key(identity: &Identity, asked: &Asked<'_>) -> Digest {
    identity.digest.rotate_left(1) ^ asked.digest
}

fn body(identity: &Identity, attributes: &Attributes<'_>) -> Vec<u8> {
    format!(
        "{{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\",\"spec\":{}{}}}",
        identity.spec,
        attributes.spec()
    )
    .into_bytes()
}

fn decision(answer: Answer) -> Result<Decision, Error> {
    let Status { allowed, denied, reason } = answer.status;
    match (allowed, denied) {
        (true, true) => Err(Error::Contradiction),
        (true, false) => Ok(Decision::Allowed),
        (false, _) => Ok(Decision::Denied(reason.into())),
    }
}

#[cfg(test)]
mod tests;
