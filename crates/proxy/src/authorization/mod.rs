//! Authorization: static rules, then the cache, then a SubjectAccessReview.

pub(crate) mod attributes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::runtime::Handle;

pub(crate) use self::attributes::{AccessCheck, Attributes, AttributesBuilder, AttributesError};
use crate::cache::{BoundedCache, Digest, HmacKey, Limits, SingleFlight};
use crate::config::{Configuration, Rule};
use crate::identity::Identity;
use crate::metrics::{CacheName, ProxyMetrics};
use crate::reviews::{self, ReviewClient};

/// A decision; a denial contains the reason given by the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed,
    Denied(Arc<str>),
}

/// Why a request could not be authorized.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The review failed.
    #[error(transparent)]
    Review(#[from] reviews::Error),
    /// The API server both allowed and denied the request.
    #[error("API server both allowed and denied the request")]
    Contradictory,
    /// The lookup was aborted.
    #[error("lookup was aborted")]
    Aborted,
}

/// Cache lifetimes of decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecisionTtls {
    pub(crate) allowed: Duration,
    pub(crate) denied: Duration,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    allowed: bool,
    denied: bool,
    reason: String,
}

/// Authorizes requests.
#[derive(Debug)]
pub(crate) struct Authorizer {
    /// Builds the attributes of requests.
    pub(crate) attributes: AttributesBuilder,
    rules: Vec<Rule>,
    cache: Arc<BoundedCache<Decision>>,
    reviews_in_flight: SingleFlight<Result<Decision, Error>>,
    reviews: Arc<ReviewClient>,
    ttls: DecisionTtls,
    metrics: ProxyMetrics,
}

impl Authorizer {
    /// Creates an authorizer from the configuration.
    pub(crate) fn new(
        configuration: Configuration,
        hmac_key: &HmacKey,
        (limits, ttls): (Limits, DecisionTtls),
        (reviews, runtime): (Arc<ReviewClient>, Handle),
        metrics: &ProxyMetrics,
    ) -> Self {
        Self {
            attributes: AttributesBuilder::new(&configuration.mode, hmac_key),
            rules: configuration.rules,
            cache: Arc::new(BoundedCache::new(limits)),
            reviews_in_flight: SingleFlight::new(runtime),
            reviews,
            ttls,
            metrics: metrics.clone(),
        }
    }

    /// Returns the cache of decisions.
    pub(crate) fn cache(&self) -> &Arc<BoundedCache<Decision>> {
        &self.cache
    }

    /// Decides by the static rules and the cache.
    pub(crate) fn decide_locally(
        &self,
        identity: &Identity,
        check: &AccessCheck<'_>,
        now: Instant,
    ) -> Option<Decision> {
        let allows = |rule: &Rule| rule.allows(&identity.user, &identity.groups, &check.attributes);
        if self.rules.iter().any(allows) {
            return Some(Decision::Allowed);
        }
        let cached = self.cache.get(key(identity, check), now);
        self.metrics.record_lookup(CacheName::Decisions, cached.is_some());
        cached
    }

    /// Creates a SubjectAccessReview, or joins an identical one in flight.
    pub(crate) async fn review(
        &self,
        identity: &Identity,
        check: &AccessCheck<'_>,
    ) -> Result<Decision, Error> {
        let key = key(identity, check);
        let (result, joined) = self
            .reviews_in_flight
            .join(key, || {
                let body = body(identity, &check.attributes);
                let is_cacheable = check.attributes.is_cacheable();
                let (reviews, cache, ttls) = (self.reviews.clone(), self.cache.clone(), self.ttls);
                async move {
                    // A review that completed since the cache lookup may have cached the decision.
                    if let Some(decision) = cache.get(key, Instant::now()) {
                        return Ok(decision);
                    }
                    let decision = decision(reviews.review_access(body).await?)?;
                    if is_cacheable {
                        let (ttl, size) = match &decision {
                            Decision::Allowed => (ttls.allowed, 0),
                            Decision::Denied(reason) => (ttls.denied, reason.len()),
                        };
                        cache.insert(key, decision.clone(), size, Instant::now() + ttl);
                    }
                    Ok(decision)
                }
            })
            .await;
        if joined {
            self.metrics.record_joined(CacheName::Decisions);
        }
        result.unwrap_or(Err(Error::Aborted))
    }
}

/// Both digests are keyed and random, so combining them is as good as hashing both.
fn key(identity: &Identity, check: &AccessCheck<'_>) -> Digest {
    identity.digest.rotate_left(1) ^ check.digest
}

fn body(identity: &Identity, attributes: &Attributes<'_>) -> Vec<u8> {
    format!(
        "{{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\",\"spec\":{}{}}}",
        identity.spec,
        attributes.spec()
    )
    .into_bytes()
}

fn decision(status: Status) -> Result<Decision, Error> {
    let Status { allowed, denied, reason } = status;
    match (allowed, denied) {
        (true, true) => Err(Error::Contradictory),
        (true, false) => Ok(Decision::Allowed),
        (false, _) => Ok(Decision::Denied(reason.into())),
    }
}

#[cfg(test)]
mod tests;
