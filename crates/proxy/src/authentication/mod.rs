//! Who is asking: by client certificate, by token, or by a token among websocket subprotocols.

pub(crate) mod bearer;
pub(crate) mod oidc;
pub(crate) mod tokens;
pub(crate) mod websocket;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use self::oidc::Oidc;
use self::tokens::Tokens;
use crate::cache::Digest;
use crate::identity::Identity;
use crate::outcome::Outcome;
use crate::reviews;

/// Why nobody is known.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Unknown {
    /// The token is not a good one.
    #[error("{0}")]
    Bad(Arc<str>),
    /// Nobody issues tokens that look like this.
    #[error("the token has letters that no token has, or too many")]
    Impossible,
    /// It could not be found out.
    #[error(transparent)]
    Review(#[from] reviews::Error),
    /// The look-up broke.
    #[error("the look-up ended without an answer")]
    Lost,
}

impl Unknown {
    /// How the request ends.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Bad(_) | Self::Impossible => Outcome::BadToken,
            Self::Review(_) | Self::Lost => Outcome::AuthenticationUnavailable,
        }
    }
}

/// Somebody, or why not.
pub(crate) type Known = Result<Arc<Identity>, Unknown>;

/// Who knows the owners of tokens.
#[derive(Debug)]
pub(crate) enum Tellers {
    /// The API server.
    ApiServer(Tokens),
    /// The keys of an identity provider. It knows neither certificates nor websockets.
    Provider(Arc<Oidc>),
}

impl Tellers {
    /// The key of a token.
    pub(crate) fn key(&self, token: &[u8]) -> Digest {
        match self {
            Self::ApiServer(tokens) => tokens.key(token),
            Self::Provider(oidc) => oidc.key(token),
        }
    }

    /// What is known without asking.
    pub(crate) fn known(&self, key: Digest, now: Instant) -> Option<Known> {
        match self {
            Self::ApiServer(tokens) => tokens.known(key, now),
            Self::Provider(oidc) => oidc.known(key, now),
        }
    }

    /// Asks, for a client at an address.
    pub(crate) async fn ask(&self, key: Digest, token: &str, from: IpAddr) -> Known {
        match self {
            Self::ApiServer(tokens) => tokens.ask(key, token, from).await,
            Self::Provider(oidc) => oidc.ask(key, token).await,
        }
    }
}
