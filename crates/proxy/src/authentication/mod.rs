//! Authentication by client certificate, bearer token, or a token among the websocket subprotocols.

pub(crate) mod bearer;
pub(crate) mod oidc;
pub(crate) mod token_review;
pub(crate) mod websocket;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use self::oidc::OidcAuthenticator;
use self::token_review::TokenReviewer;
use crate::cache::Digest;
use crate::identity::Identity;
use crate::outcome::Outcome;
use crate::reviews;

/// Why a token could not be authenticated.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum AuthenticationError {
    /// The token was rejected.
    #[error("{0}")]
    Rejected(Arc<str>),
    /// The token is malformed or too long; no issuer creates such tokens.
    #[error("malformed token")]
    Malformed,
    /// The review failed.
    #[error(transparent)]
    Review(#[from] reviews::Error),
    /// The lookup was aborted.
    #[error("lookup was aborted")]
    Aborted,
}

impl AuthenticationError {
    /// Returns the outcome of the request.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Rejected(_) | Self::Malformed => Outcome::BadToken,
            Self::Review(_) | Self::Aborted => Outcome::AuthenticationUnavailable,
        }
    }
}

/// The identity of a token, or why there is none.
pub(crate) type AuthenticationResult = Result<Arc<Identity>, AuthenticationError>;

/// Authenticates tokens.
#[derive(Debug)]
pub(crate) enum TokenAuthenticator {
    /// By TokenReview.
    TokenReview(TokenReviewer),
    /// By the keys of an OpenID Connect issuer. Client certificates and websocket tokens are not supported
    /// then.
    Oidc(Arc<OidcAuthenticator>),
}

impl TokenAuthenticator {
    /// Returns the cache key of a token.
    pub(crate) fn key(&self, token: &[u8]) -> Digest {
        match self {
            Self::TokenReview(reviewer) => reviewer.key(token),
            Self::Oidc(oidc) => oidc.key(token),
        }
    }

    /// Returns the cached result of a token.
    pub(crate) fn cached(&self, key: Digest, now: Instant) -> Option<AuthenticationResult> {
        match self {
            Self::TokenReview(reviewer) => reviewer.cached(key, now),
            Self::Oidc(oidc) => oidc.cached(key, now),
        }
    }

    /// Authenticates a token that is not cached, on behalf of a client address.
    pub(crate) async fn authenticate(
        &self,
        key: Digest,
        token: &str,
        client: IpAddr,
    ) -> AuthenticationResult {
        match self {
            Self::TokenReview(reviewer) => reviewer.authenticate(key, token, client).await,
            Self::Oidc(oidc) => oidc.authenticate(key, token).await,
        }
    }
}
