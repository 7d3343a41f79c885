//! Who is asking: by client certificate, by token, or by a token among websocket subprotocols.

pub(crate) mod bearer;
pub(crate) mod tokens;
pub(crate) mod websocket;

use std::sync::Arc;

use crate::identity::Identity;
use crate::outcome::Outcome;
use crate::reviews;

/// Why nobody is known.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Unknown {
    /// The token is not a good one.
    #[error("{0}")]
    Bad(Arc<str>),
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
            Self::Bad(_) => Outcome::BadToken,
            Self::Review(_) | Self::Lost => Outcome::AuthenticationUnavailable,
        }
    }
}

/// Somebody, or why not.
pub(crate) type Known = Result<Arc<Identity>, Unknown>;
