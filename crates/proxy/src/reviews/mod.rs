//! TokenReview and SubjectAccessReview requests to the API server, with their concurrency and rate limits.

mod limiter;
mod retry;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Request, header};
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::metrics::ProxyMetrics;

pub(crate) use self::limiter::{PerKeyLimit, RateLimiter};
use self::retry::{Retry, classify};

/// Concurrent TokenReviews. The two limits together stay below what the HTTP client lets through, so that a
/// flood of invalid tokens does not delay requests whose token is cached.
const MAX_TOKEN_REVIEWS: usize = 12;

/// Concurrent TokenReviews caused by one client address.
const MAX_TOKEN_REVIEWS_PER_CLIENT: usize = MAX_TOKEN_REVIEWS / 2;

/// Concurrent SubjectAccessReviews.
const MAX_ACCESS_REVIEWS: usize = 12;

/// The kind of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewKind {
    /// TokenReview.
    Token,
    /// SubjectAccessReview.
    Access,
}

impl ReviewKind {
    fn path(self) -> &'static str {
        match self {
            Self::Token => "/apis/authentication.k8s.io/v1/tokenreviews",
            Self::Access => "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        }
    }

    /// Returns the name used in metrics and errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Token => "TokenReview",
            Self::Access => "SubjectAccessReview",
        }
    }
}

/// Why a review failed. The text never contains the review itself, which holds the token.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API server rejected the review.
    #[error("API server rejected the {kind} with status {code}: {message}")]
    Rejected { kind: &'static str, code: u16, message: String },
    /// The API server could not be reached.
    #[error("{kind} request failed: {message}")]
    Unreachable { kind: &'static str, message: String },
    /// The deadline passed, retries and waiting included.
    #[error("{kind} timed out after {} s", .timeout.as_secs())]
    Timeout { kind: &'static str, timeout: Duration },
}

impl Error {
    /// Returns the `result` label in metrics.
    pub(crate) fn category(&self) -> &'static str {
        match self {
            Self::Rejected { .. } => "refused",
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout { .. } => "timeout",
        }
    }
}

/// A review as the API server returns it.
#[derive(Deserialize)]
struct Reviewed<S> {
    #[serde(default)]
    status: S,
}

/// Sends reviews to the API server.
pub(crate) struct ReviewClient {
    client: Client,
    limiter: Option<RateLimiter>,
    timeout: Duration,
    token_permits: Arc<Semaphore>,
    access_permits: Arc<Semaphore>,
    per_client: PerKeyLimit<IpAddr>,
    metrics: ProxyMetrics,
}

impl std::fmt::Debug for ReviewClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReviewClient").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl ReviewClient {
    /// Creates a client whose reviews take at most `timeout`, retries included.
    pub(crate) fn new(
        client: Client,
        limiter: Option<RateLimiter>,
        timeout: Duration,
        metrics: &ProxyMetrics,
    ) -> Self {
        Self {
            client,
            limiter,
            timeout,
            token_permits: Arc::new(Semaphore::new(MAX_TOKEN_REVIEWS)),
            access_permits: Arc::new(Semaphore::new(MAX_ACCESS_REVIEWS)),
            per_client: PerKeyLimit::new(MAX_TOKEN_REVIEWS_PER_CLIENT),
            metrics: metrics.clone(),
        }
    }

    /// Creates a TokenReview on behalf of a client address and returns its status.
    pub(crate) async fn review_token<S>(&self, body: Vec<u8>, client: IpAddr) -> Result<S, Error>
    where
        S: Default + DeserializeOwned,
    {
        self.with_timeout(ReviewKind::Token, async {
            // The client's own limit first: a client that has exhausted it must not hold a global permit.
            let _client_permit = self.per_client.acquire(client).await;
            let _permit = self.token_permits.acquire().await;
            self.post(ReviewKind::Token, body).await
        })
        .await
    }

    /// Creates a SubjectAccessReview and returns its status.
    pub(crate) async fn review_access<S>(&self, body: Vec<u8>) -> Result<S, Error>
    where
        S: Default + DeserializeOwned,
    {
        self.with_timeout(ReviewKind::Access, async {
            let _permit = self.access_permits.acquire().await;
            self.post(ReviewKind::Access, body).await
        })
        .await
    }

    async fn with_timeout<S>(
        &self,
        kind: ReviewKind,
        review: impl Future<Output = Result<S, Error>>,
    ) -> Result<S, Error> {
        let result = match tokio::time::timeout(self.timeout, review).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout { kind: kind.name(), timeout: self.timeout }),
        };
        self.metrics.record_review(kind, result.as_ref().err().map_or("answered", Error::category));
        result
    }

    async fn post<S>(&self, kind: ReviewKind, body: Vec<u8>) -> Result<S, Error>
    where
        S: Default + DeserializeOwned,
    {
        let mut retry = Retry::default();
        loop {
            if let Some(limiter) = &self.limiter {
                limiter.acquire().await;
            }
            let request = Request::builder()
                .method(Method::POST)
                .uri(kind.path())
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.clone())
                .map_err(|error| Error::Unreachable { kind: kind.name(), message: error.to_string() })?;
            let started = Instant::now();
            let response = self.client.request::<Reviewed<S>>(request).await;
            self.metrics.observe_review(kind, started.elapsed());
            match response {
                Ok(reviewed) => return Ok(reviewed.status),
                Err(error) => {
                    let (error, retry_after) = classify(kind, error);
                    match retry_after.and_then(|after| retry.next_delay(after)) {
                        Some(delay) => tokio::time::sleep(delay).await,
                        None => return Err(error),
                    }
                }
            }
        }
    }
}
