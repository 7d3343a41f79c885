//! Authenticates tokens by TokenReview.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use super::{AuthenticationError, AuthenticationResult};
use crate::cache::{BoundedCache, Digest, HmacKey, Limits, SingleFlight};
use crate::identity::{Identity, IdentityHeaders, UserInfo};
use crate::metrics::{CacheName, ProxyMetrics};
use crate::reviews::ReviewClient;

/// Rejected tokens have their own cache: a flood of them must not evict valid ones.
const REJECTED_LIMITS: Limits = Limits { entries: 16_384, bytes: 4 << 20 };

/// Characters of a rejection reason that are cached.
const MAX_REASON_CHARS: usize = 200;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    authenticated: bool,
    user: UserInfo,
    audiences: Option<Vec<String>>,
    error: String,
}

/// Cache lifetimes of TokenReview results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenTtls {
    /// Authenticated, or rejected without an error.
    pub(crate) definite: Duration,
    /// Rejected with an error, as the API server does for every unknown token.
    pub(crate) rejected: Duration,
}

/// Authenticates tokens by TokenReview.
#[derive(Debug)]
pub(crate) struct TokenReviewer {
    identities: Arc<BoundedCache<Arc<Identity>>>,
    rejected: Arc<BoundedCache<Arc<str>>>,
    reviews_in_flight: SingleFlight<AuthenticationResult>,
    context: Arc<ReviewContext>,
    metrics: ProxyMetrics,
}

/// What a lookup needs independently of its caller.
#[derive(Debug)]
struct ReviewContext {
    reviews: Arc<ReviewClient>,
    audiences: Vec<String>,
    ttls: TokenTtls,
    identity_headers: Option<IdentityHeaders>,
    hmac_key: HmacKey,
}

impl TokenReviewer {
    /// Creates a reviewer that accepts tokens of these audiences.
    pub(crate) fn new(
        (reviews, runtime): (Arc<ReviewClient>, Handle),
        audiences: Vec<String>,
        (limits, ttls): (Limits, TokenTtls),
        (identity_headers, hmac_key): (Option<IdentityHeaders>, HmacKey),
        metrics: &ProxyMetrics,
    ) -> Self {
        Self {
            identities: Arc::new(BoundedCache::new(limits)),
            rejected: Arc::new(BoundedCache::new(REJECTED_LIMITS)),
            reviews_in_flight: SingleFlight::new(runtime),
            context: Arc::new(ReviewContext { reviews, audiences, ttls, identity_headers, hmac_key }),
            metrics: metrics.clone(),
        }
    }

    /// Returns the caches of valid and of rejected tokens.
    pub(crate) fn caches(&self) -> (&BoundedCache<Arc<Identity>>, &BoundedCache<Arc<str>>) {
        (&self.identities, &self.rejected)
    }

    /// Returns the cache key of a token.
    pub(crate) fn key(&self, token: &[u8]) -> Digest {
        self.context.hmac_key.digest(&[b"token", token])
    }

    /// Returns the cached result of a token.
    pub(crate) fn cached(&self, key: Digest, now: Instant) -> Option<AuthenticationResult> {
        if let Some(identity) = self.identities.get(key, now) {
            self.metrics.record_lookup(CacheName::Tokens, true);
            return Some(Ok(identity));
        }
        self.metrics.record_lookup(CacheName::Tokens, false);
        let reason = self.rejected.get(key, now);
        self.metrics.record_lookup(CacheName::BadTokens, reason.is_some());
        Some(Err(AuthenticationError::Rejected(reason?)))
    }

    /// Creates a TokenReview, or joins one of the same token in flight.
    pub(crate) async fn authenticate(
        &self,
        key: Digest,
        token: &str,
        client: IpAddr,
    ) -> AuthenticationResult {
        let (result, joined) = self
            .reviews_in_flight
            .join(key, || {
                let body = body(token, &self.context.audiences);
                let (context, identities, rejected) =
                    (self.context.clone(), self.identities.clone(), self.rejected.clone());
                async move {
                    // A review that completed since the cache lookup may have cached the identity.
                    if let Some(identity) = identities.get(key, Instant::now()) {
                        return Ok(identity);
                    }
                    let status: Status = context.reviews.review_token(body, client).await?;
                    let is_definite = status.error.is_empty();
                    let expires_after = |ttl| Instant::now() + ttl;
                    match context.evaluate(status) {
                        Ok(identity) => {
                            let size = identity.size();
                            identities.insert(
                                key,
                                identity.clone(),
                                size,
                                expires_after(context.ttls.definite),
                            );
                            Ok(identity)
                        }
                        Err(reason) => {
                            let TokenTtls { definite, rejected: short } = context.ttls;
                            rejected.insert(
                                key,
                                reason.clone(),
                                reason.len(),
                                expires_after(if is_definite { definite } else { short }),
                            );
                            Err(AuthenticationError::Rejected(reason))
                        }
                    }
                }
            })
            .await;
        if joined {
            self.metrics.record_joined(CacheName::Tokens);
        }
        result.unwrap_or(Err(AuthenticationError::Aborted))
    }
}

impl ReviewContext {
    fn evaluate(&self, status: Status) -> Result<Arc<Identity>, Arc<str>> {
        let Status { authenticated, user, audiences, error } = status;
        if !authenticated {
            let reason = if error.is_empty() { "token is unknown to the API server" } else { &error };
            return Err(reason.chars().take(MAX_REASON_CHARS).collect::<String>().into());
        }
        check_audiences(&self.audiences, audiences.as_deref().unwrap_or_default())?;
        Identity::new(user.with_authenticated_group(), self.identity_headers.as_ref(), &self.hmac_key)
            .map(Arc::new)
            .ok_or_else(|| "user cannot be serialized".into())
    }
}

/// Checks that the token is valid for one of the audiences. A status without audiences comes from an API
/// server that does not support them, and is rejected.
fn check_audiences(accepted: &[String], audiences: &[String]) -> Result<(), &'static str> {
    if accepted.is_empty() || accepted.iter().any(|audience| audiences.contains(audience)) {
        return Ok(());
    }
    Err("token is valid for none of --auth-token-audiences")
}

fn body(token: &str, audiences: &[String]) -> Vec<u8> {
    let mut spec = json!({ "token": token });
    if !audiences.is_empty() {
        spec["audiences"] = json!(audiences);
    }
    json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec })
        .to_string()
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_or_wrong_audience_is_rejected() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(check_audiences(&[], &[]).is_ok());
        assert!(check_audiences(&[], &list(&["a"])).is_ok());
        assert!(check_audiences(&list(&["a", "b"]), &list(&["c", "b"])).is_ok());
        assert!(check_audiences(&list(&["a"]), &list(&["c"])).is_err());
        assert!(check_audiences(&list(&["a"]), &[]).is_err());
    }

    #[test]
    fn review_contains_audiences_only_when_configured() {
        let text = |audiences: &[String]| String::from_utf8(body("t\"", audiences)).unwrap();
        assert!(text(&[]).ends_with(r#""spec":{"token":"t\""}}"#), "{}", text(&[]));
        let with = text(&["a".into()]);
        assert!(with.contains(r#""audiences":["a"]"#) && with.contains(r#""token":"t\"""#), "{with}");
    }
}
