//! Questions to the API server: who is that, and may he.

mod limiter;
mod retry;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Request, header};
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::metrics::ProxyMetrics;

pub(crate) use self::limiter::{Limiter, Shares};
use self::retry::{Retry, verdict};

/// TokenReviews under way at once. Together with the others fewer than the client lets through, so that a flood of bad tokens
/// delays nobody whose token is known (W7).
const TOKENS_AT_ONCE: usize = 12;

/// How many of them one client address may use.
const TOKENS_OF_ONE: usize = TOKENS_AT_ONCE / 2;

/// SubjectAccessReviews under way at once.
const ACCESSES_AT_ONCE: usize = 12;

/// A kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    /// Who is that.
    Token,
    /// May he.
    Access,
}

impl Review {
    fn path(self) -> &'static str {
        match self {
            Self::Token => "/apis/authentication.k8s.io/v1/tokenreviews",
            Self::Access => "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        }
    }

    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Token => "TokenReview",
            Self::Access => "SubjectAccessReview",
        }
    }
}

/// Why there is no answer. The text never holds what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API server refused.
    #[error("the API server refused the {kind} with {code}: {message}")]
    Refused { kind: &'static str, code: u16, message: String },
    /// It could not be asked.
    #[error("the API server could not be asked for a {kind}: {message}")]
    Unreachable { kind: &'static str, message: String },
    /// It took too long, repeats and waiting included.
    #[error("no {kind} within {} s", .within.as_secs())]
    TooLate { kind: &'static str, within: Duration },
}

impl Error {
    /// Its name in metrics.
    pub(crate) fn category(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::Unreachable { .. } => "unreachable",
            Self::TooLate { .. } => "timeout",
        }
    }
}

/// The way to the API server, with its budgets.
pub(crate) struct Reviews {
    client: Client,
    limiter: Option<Limiter>,
    within: Duration,
    tokens: Arc<Semaphore>,
    accesses: Arc<Semaphore>,
    shares: Shares<IpAddr>,
    metrics: ProxyMetrics,
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviews").field("within", &self.within).finish_non_exhaustive()
    }
}

impl Reviews {
    /// Asks through this client; each question has its answer within so long, or none.
    pub(crate) fn new(
        client: Client,
        limiter: Option<Limiter>,
        within: Duration,
        metrics: &ProxyMetrics,
    ) -> Self {
        Self {
            client,
            limiter,
            within,
            tokens: Arc::new(Semaphore::new(TOKENS_AT_ONCE)),
            accesses: Arc::new(Semaphore::new(ACCESSES_AT_ONCE)),
            shares: Shares::new(TOKENS_OF_ONE),
            metrics: metrics.clone(),
        }
    }

    /// Who that is, for a client at an address.
    pub(crate) async fn token<T: DeserializeOwned>(&self, body: Vec<u8>, from: IpAddr) -> Result<T, Error> {
        self.within(Review::Token, async {
            // First its own share, then the common one: whoever has used his up does not stand in others' way.
            let _share = self.shares.take(from).await;
            let _turn = self.tokens.acquire().await;
            self.ask(Review::Token, body).await
        })
        .await
    }

    /// Whether he may.
    pub(crate) async fn access<T: DeserializeOwned>(&self, body: Vec<u8>) -> Result<T, Error> {
        self.within(Review::Access, async {
            let _turn = self.accesses.acquire().await;
            self.ask(Review::Access, body).await
        })
        .await
    }

    async fn within<T>(
        &self,
        kind: Review,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let answer = match tokio::time::timeout(self.within, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::TooLate { kind: kind.name(), within: self.within }),
        };
        self.metrics.reviewed(kind, answer.as_ref().err().map_or("answered", Error::category));
        answer
    }

    async fn ask<T: DeserializeOwned>(&self, kind: Review, body: Vec<u8>) -> Result<T, Error> {
        let mut tries = Retry::default();
        loop {
            if let Some(limiter) = &self.limiter {
                limiter.turn().await;
            }
            let request = Request::builder()
                .method(Method::POST)
                .uri(kind.path())
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.clone())
                .map_err(|error| Error::Unreachable { kind: kind.name(), message: error.to_string() })?;
            let begin = Instant::now();
            let answer = self.client.request::<T>(request).await;
            self.metrics.review_took(kind, begin.elapsed());
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    let (error, again) = verdict(kind, error);
                    match again.and_then(|wait| tries.next(wait)) {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => return Err(error),
                    }
                }
            }
        }
    }
}
